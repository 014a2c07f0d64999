// The panel beside the conversation: what the server does, what the model is, what compressing it cost.

import { element } from './markdown.js';

const $ = (id) => document.getElementById(id);

// The values of Prometheus' text, labels left out.
function metricsOf(text) {
  const values = {};
  for (const line of text.split('\n')) {
    const match = /^([a-z_:]+)(?:\{[^}]*\})? (\S+)$/.exec(line);
    if (match) values[match[1]] = Number(match[2]);
  }
  return values;
}

let last = null;  // tokens and time of the last look

export function showMetrics(text) {
  const values = metricsOf(text);
  const tokens = values['nibble:generation_tokens_total'];
  const now = performance.now();
  if (last) $('speed').textContent = ((tokens - last.tokens) / (now - last.now) * 1000).toFixed(1);
  last = { tokens, now };
  $('batch').textContent = values['nibble:num_requests_running'];
  $('waiting').textContent = values['nibble:num_requests_waiting'];
  $('kv').value = values['nibble:kv_cache_usage_perc'];
  $('kv-text').textContent = `${(100 * values['nibble:kv_cache_usage_perc']).toFixed(1)} %`;
}

function bytes(count) {
  return count >= 1e9 ? `${(count / 1e9).toFixed(2)} GB` : `${(count / 1e6).toFixed(1)} MB`;
}

export function showFacts(facts) {
  const rows = [
    ['Recipe', facts.recipe || 'as it was trained'],
    ['Bits per weight', facts.bits_per_weight?.toFixed(2)],
    ['Weights', facts.weight_bytes && bytes(facts.weight_bytes)],
    ['Context', facts.context && `${facts.context} tokens`],
    ['KV cache', facts.kv_type],
    ['Runs on', facts.device],
  ];
  for (const [name, value] of rows) {
    if (value) $('facts').append(element('dt', name), element('dd', value));
  }
}

// Rows of `nibble compare`. A recipe has a line for its name, which may be long, and one for its figures.
export function showDamage(rows) {
  if (!rows?.length) return;
  const columns = [
    ['perplexity', 'perplexity', (value) => value.toFixed(3)],
    ['increase', 'increase', (value) => `${(100 * value).toFixed(2)} %`.replace(/^-(0\.00 %)$/, '$1')],
    ['bits_per_weight', 'bits', (value) => value.toFixed(2)],
    ['decode_tokens_per_s', 'tokens/s', (value) => value.toFixed(0)],
  ].filter(([field]) => rows.some((row) => row[field] != null));
  const table = element('table', element('caption', 'What compressing it cost'));
  table.append(element('thead', element('tr', columns.map(([, name]) => element('th', name, { scope: 'col' })))));
  for (const row of rows) {
    const name = element('th', row.recipe, { scope: 'rowgroup', colspan: columns.length });
    const cells = columns.map(([field, , write]) => element('td', row[field] == null ? '' : write(row[field])));
    table.append(element('tbody', [element('tr', name), element('tr', cells)]));
  }
  $('damage').replaceChildren(table);
  $('damage').hidden = false;
}
