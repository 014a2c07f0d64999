// The chat of the page and its panel. Talks to the server's own API only.

const $ = (id) => document.getElementById(id);
const kPanelMs = 1000;

let key = sessionStorage.getItem('nibble-key') ?? '';
let model = '';
let chats = false;  // whether the model has a chat template
let messages = [];
let running = null;  // the AbortController of the answer that is being written

async function request(path, body, signal) {
  for (;;) {
    const headers = {};
    if (body) headers['Content-Type'] = 'application/json';
    if (key) headers.Authorization = `Bearer ${key}`;
    const response = await fetch(path, {
      method: body ? 'POST' : 'GET',
      headers,
      body: body && JSON.stringify(body),
      signal,
    });
    if (response.status !== 401) return response;
    await askForKey();
  }
}

let asking = null;  // one dialog for all requests that need it
function askForKey() {
  asking ??= new Promise((resolve) => {
    const dialog = $('key-dialog');
    dialog.addEventListener('close', () => {
      key = $('key').value;
      sessionStorage.setItem('nibble-key', key);
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

function element(name, text, className) {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function show(text, className) {
  const made = element('div', text, `message ${className}`);
  $('log').append(made);
  made.scrollIntoView({ block: 'end' });
  return made;
}

// The data of each server-sent event.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    for (let end; (end = rest.indexOf('\n\n')) >= 0; rest = rest.slice(end + 2)) {
      for (const line of rest.slice(0, end).split('\n')) {
        if (line.startsWith('data: ')) yield line.slice(6);
      }
    }
  }
}

function requestBody() {
  const common = {
    model,
    stream: true,
    temperature: Number($('temperature').value),
    max_tokens: Number($('max-tokens').value),
  };
  if (!chats) return ['v1/completions', { ...common, prompt: messages.at(-1).content }];
  const system = $('system').value.trim();
  const all = system ? [{ role: 'system', content: system }, ...messages] : messages;
  return ['v1/chat/completions', { ...common, messages: all }];
}

async function answer() {
  running = new AbortController();
  $('send').hidden = true;
  $('stop').hidden = false;
  const place = show('', 'assistant');
  let text = '';
  try {
    const response = await request(...requestBody(), running.signal);
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const data of events(response)) {
      if (data === '[DONE]') break;
      const event = JSON.parse(data);
      if (event.error) throw new Error(event.error.message);
      const choice = event.choices[0];
      text += choice?.delta?.content ?? choice?.text ?? '';
      place.textContent = text;
      $('log').scrollTop = $('log').scrollHeight;
    }
  } catch (error) {
    if (error.name === 'AbortError') show('Stopped.', 'note');
    else show(error.message, 'error');
  }
  messages.push({ role: 'assistant', content: text });
  running = null;
  $('send').hidden = false;
  $('stop').hidden = true;
  $('text').focus();
}

function submit() {
  const text = $('text').value.trim();
  if (!text || running) return;
  $('text').value = '';
  messages.push({ role: 'user', content: text });
  show(text, 'user');
  answer();
}

function startAnew() {
  running?.abort();
  messages = [];
  $('log').replaceChildren();
  $('text').focus();
}

// The panel.

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
async function refresh() {
  if (document.hidden) return;
  try {
    const response = await request('metrics');
    if (!response.ok) return;
    const values = metricsOf(await response.text());
    const tokens = values['nibble:generation_tokens_total'];
    const now = performance.now();
    if (last) $('speed').textContent = ((tokens - last.tokens) / (now - last.now) * 1000).toFixed(1);
    last = { tokens, now };
    $('batch').textContent = values['nibble:num_requests_running'];
    $('waiting').textContent = values['nibble:num_requests_waiting'];
    $('kv').value = values['nibble:kv_cache_usage_perc'];
    $('kv-text').textContent = `${(100 * values['nibble:kv_cache_usage_perc']).toFixed(1)} %`;
  } catch {
    $('speed').textContent = 'no answer';
  }
}

function bytes(count) {
  return count >= 1e9 ? `${(count / 1e9).toFixed(2)} GB` : `${(count / 1e6).toFixed(1)} MB`;
}

function showFacts(facts) {
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

// Rows of `nibble compare`.
function showDamage(rows) {
  if (!rows?.length) return;
  const columns = [
    ['recipe', 'recipe', (value) => value],
    ['perplexity', 'perplexity', (value) => value.toFixed(3)],
    ['increase', 'increase', (value) => `${(100 * value).toFixed(2)} %`],
    ['bits_per_weight', 'bits', (value) => value.toFixed(2)],
    ['decode_tokens_per_s', 'tokens/s', (value) => value.toFixed(0)],
  ].filter(([field]) => rows.some((row) => row[field] != null));
  const table = element('table', '');
  table.append(element('caption', 'What compressing it cost'));
  const head = table.insertRow();
  for (const [, name] of columns) head.append(element('th', name));
  for (const row of rows) {
    const line = table.insertRow();
    for (const [field, , write] of columns) {
      line.insertCell().textContent = row[field] == null ? '' : write(row[field]);
    }
  }
  $('damage').replaceChildren(table);
  $('damage').hidden = false;
}

async function open() {
  const response = await request('props');
  const properties = await response.json();
  model = properties.model_alias;
  chats = Boolean(properties.chat_template);
  $('model').textContent = chats ? model : `${model} (continues texts; it has no chat template)`;
  document.title = `${model} · Nibble`;
  showFacts(properties.model ?? {});
  showDamage(properties.model?.damage);
}

$('form').addEventListener('submit', (event) => {
  event.preventDefault();
  submit();
});
$('text').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    submit();
  }
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') running?.abort();
});
$('stop').addEventListener('click', () => running?.abort());
$('new').addEventListener('click', startAnew);

try {
  await open();
  await refresh();
  setInterval(refresh, kPanelMs);
} catch (error) {
  show(`The server cannot be reached: ${error.message}`, 'error');
}
