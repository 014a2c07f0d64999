// Markdown to elements, for text that nobody vouches for: elements are made one by one and text stays
// text, so that no HTML can come through. The work is linear in the length of the text.
//
// Known are headings, paragraphs, fenced code, lists, quotes, tables, rules; emphasis, strong, struck out,
// code and links. Images become links: the page fetches nothing. Line breaks stay.

import { inline } from './markdown-inline.js';

const kDeepest = 8;  // quotes and lists inside of each other
const kItem = /^( *)([-*+]|\d{1,9}[.)])(?: +|$)/;
const kFence = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const kHeading = /^ {0,3}(#{1,6}) +(.*)$/;
const kQuote = /^ {0,3}> ?/;

export function element(name, children = [], attributes = {}) {
  const made = document.createElement(name);
  for (const child of [children].flat()) made.append(child);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  return made;
}

const isBlank = (line) => line.trim() === '';
const indentOf = (line) => line.length - line.trimStart().length;

function isRule(line) {
  const marks = line.replaceAll(' ', '');
  return marks.length >= 3 && '-*_'.includes(marks[0]) && marks === marks[0].repeat(marks.length);
}

// The cells of a table's row; a bar behind a backslash or in code separates nothing.
function cellsOf(line) {
  const cells = [''];
  let code = false;
  for (let i = 0; i < line.length; ++i) {
    if (line[i] === '`') code = !code;
    if (line[i] === '\\' && line[i + 1] === '|') cells[cells.length - 1] += line[++i];
    else if (line[i] === '|' && !code) cells.push('');
    else cells[cells.length - 1] += line[i];
  }
  if (isBlank(cells[0])) cells.shift();
  if (cells.length > 0 && isBlank(cells.at(-1))) cells.pop();
  return cells.map((cell) => cell.trim());
}

function isTable(lines, at) {
  if (!lines[at].includes('|') || !lines[at + 1]?.includes('-')) return false;
  const marks = cellsOf(lines[at + 1]);
  return marks.length === cellsOf(lines[at]).length && marks.every((mark) => /^:?-+:?$/.test(mark));
}

function beginsBlock(lines, at) {
  const line = lines[at];
  return kFence.test(line) || kHeading.test(line) || kQuote.test(line) || kItem.test(line) || isRule(line)
    || isTable(lines, at);
}

// Each of these takes lines from `at` on and returns where the next block begins, and how the block's
// element is made.

function takeCode(lines, at) {
  const [, fence, language] = kFence.exec(lines[at]);
  const isEnd = (line) => line.trim().startsWith(fence) && line.trim() === fence[0].repeat(line.trim().length);
  let end = at + 1;
  while (end < lines.length && !isEnd(lines[end])) ++end;
  const code = () => element('code', lines.slice(at + 1, end).join('\n'));
  const name = language.trim().split(' ')[0];
  return [end + 1, () => element('pre', code(), name ? { 'data-language': name } : {})];
}

function takeTable(lines, at) {
  const head = cellsOf(lines[at]);
  const sides = cellsOf(lines[at + 1]).map((mark) =>
    mark.endsWith(':') ? (mark.startsWith(':') ? 'center' : 'right') : 'left');
  let end = at + 2;
  while (end < lines.length && !isBlank(lines[end]) && lines[end].includes('|')) ++end;
  const row = (name, cells) =>
    element('tr', head.map((_, i) => element(name, inline(cells[i] ?? ''), { class: sides[i] })));
  const rows = () => lines.slice(at + 2, end).map((line) => row('td', cellsOf(line)));
  const table = () => element('table', [element('thead', row('th', head)), element('tbody', rows())]);
  return [end, () => element('div', table(), { class: 'wide' })];
}

function takeQuote(lines, at, depth) {
  let end = at + 1;
  while (end < lines.length && (kQuote.test(lines[end]) || (!isBlank(lines[end]) && !beginsBlock(lines, end)))) ++end;
  const inner = lines.slice(at, end).map((line) => line.replace(kQuote, ''));
  return [end, () => element('blockquote', elementsOf(inner, depth + 1))];
}

// What belongs to an item is indented by at least two, or goes on without a blank line.
function takeList(lines, at, depth) {
  const isOrdered = (line) => /\d/.test(kItem.exec(line)[2]);
  const ordered = isOrdered(lines[at]);
  const outer = indentOf(lines[at]);
  const items = [];
  let end = at;
  for (; end < lines.length; ++end) {
    const line = lines[end];
    const indent = indentOf(line);
    const item = kItem.exec(line);
    if (isBlank(line)) {
      items.at(-1).lines.push('');
    } else if (indent >= outer + 2) {
      items.at(-1).lines.push(line.slice(Math.min(indent, items.at(-1).inside)));
    } else if (item && !isRule(line) && isOrdered(line) === ordered) {
      items.push({ inside: item[0].length, lines: [line.slice(item[0].length)] });
    } else if (isBlank(lines[end - 1]) || beginsBlock(lines, end)) {
      break;
    } else {
      items.at(-1).lines.push(line);
    }
  }
  const first = parseInt(kItem.exec(lines[at])[2], 10);
  const make = () => element(
    ordered ? 'ol' : 'ul',
    items.map((item) => element('li', elementsOf(item.lines, depth + 1))),
    ordered && first !== 1 ? { start: first } : {});
  return [end, make];
}

function takeParagraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && !isBlank(lines[end]) && !beginsBlock(lines, end)) ++end;
  return [end, () => element('p', inline(lines.slice(at, end).map((line) => line.trimStart()).join('\n')))];
}

function takeBlock(lines, at, depth) {
  const line = lines[at];
  if (kFence.test(line)) return takeCode(lines, at);
  const heading = kHeading.exec(line);
  if (heading) {
    const text = heading[2].trimEnd().replace(/ #+$/, '');
    return [at + 1, () => element(`h${heading[1].length}`, inline(text))];
  }
  if (isRule(line)) return [at + 1, () => element('hr')];
  if (isTable(lines, at)) return takeTable(lines, at);
  if (depth < kDeepest && kQuote.test(line)) return takeQuote(lines, at, depth);
  if (depth < kDeepest && kItem.test(line)) return takeList(lines, at, depth);
  return takeParagraph(lines, at);
}

// The source of each block, and how its element is made.
function* blocksOf(lines, depth) {
  for (let at = 0; at < lines.length;) {
    if (isBlank(lines[at])) {
      ++at;
      continue;
    }
    const [end, make] = takeBlock(lines, at, depth);
    yield { source: lines.slice(at, end).join('\n'), make };
    at = end;
  }
}

function elementsOf(lines, depth) {
  return [...blocksOf(lines, depth)].map((block) => block.make());
}

// A text that grows, shown in `place`: blocks that stay the same keep their elements.
export class MarkdownView {
  #place;
  #shown = [];  // source and element of each block

  constructor(place) {
    this.#place = place;
  }

  show(text) {
    const lines = text.replaceAll('\r\n', '\n').replaceAll('\t', '    ').split('\n');
    let count = 0;
    for (const { source, make } of blocksOf(lines, 0)) {
      const shown = this.#shown[count];
      if (shown?.source !== source) {
        const made = make();
        if (shown) shown.made.replaceWith(made);
        else this.#place.append(made);
        this.#shown[count] = { source, made };
      }
      ++count;
    }
    for (const { made } of this.#shown.splice(count)) made.remove();
  }
}
