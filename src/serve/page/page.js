// The chat of the page. Talks to the server's own API only.

import { element, MarkdownView } from './markdown.js';
import { showDamage, showFacts, showMetrics } from './panel.js';

const $ = (id) => document.getElementById(id);
const kPanelMs = 1000;
const kCopiedMs = 1500;
const kLeastMs = 20;  // less between the first and the last piece of an answer says nothing of its speed
const kMostTogether = 4;  // nor do pieces that come more at a time than these, on average
const kNearEnd = 40;  // pixels: who reads the end of the conversation follows it
const kEnds = { stop: 'ended by itself', length: 'cut off: no tokens left', stopped: 'stopped' };

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

function show(children, className) {
  const made = element('div', children, { class: `message ${className}` });
  $('log').append(made);
  made.scrollIntoView({ block: 'end' });
  return made;
}

function button(text, className, act) {
  const made = element('button', text, { type: 'button', class: className });
  made.addEventListener('click', act);
  return made;
}

// The data of each server-sent event.
// The data of each server-sent event, with the time at which it was read.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const time = performance.now();
    rest += value;
    for (let end; (end = rest.indexOf('\n\n')) >= 0; rest = rest.slice(end + 2)) {
      for (const line of rest.slice(0, end).split('\n')) {
        if (line.startsWith('data: ')) yield { data: line.slice(6), time };
      }
    }
  }
}

function requestBody() {
  const common = {
    model,
    stream: true,
    stream_options: { include_usage: true },
    temperature: Number($('temperature').value),
    max_tokens: Number($('max-tokens').value),
  };
  if (!chats) return ['v1/completions', { ...common, prompt: messages.at(-1).content }];
  const system = $('system').value.trim();
  const all = system ? [{ role: 'system', content: system }, ...messages] : messages;
  return ['v1/chat/completions', { ...common, messages: all }];
}

// Copying by the clipboard's own interface needs a page of https or of this machine.
async function copy(text, from) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element('textarea', text, { class: 'unseen' });
    from.after(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  from.textContent = 'Copied';
  setTimeout(() => { from.textContent = 'Copy'; }, kCopiedMs);
}

// An answer that is being written: its text, when its pieces came, and the element that shows it.
class Answer {
  text = '';
  #asked = performance.now();
  #first = null;
  #last = null;
  #pieces = 0;
  #reads = 0;  // that brought them
  #tokens = null;
  #reason = '';
  #place = element('div', [], { class: chats ? 'text' : 'text plain' });
  #message = show(this.#place, 'assistant');
  #view = new MarkdownView(this.#place);
  #drawing = false;

  take(event, time) {
    if (event.error) throw new Error(event.error.message);
    this.#tokens = event.usage?.completion_tokens ?? this.#tokens;
    const choice = event.choices[0];
    const piece = choice?.delta?.content ?? choice?.text ?? '';
    this.#reason = choice?.finish_reason || this.#reason;
    if (!piece) return;
    if (time !== this.#last) this.#reads += 1;
    this.#last = time;
    this.#first ??= time;
    this.#pieces += 1;
    this.text += piece;
    if (this.#drawing) return;
    this.#drawing = true;  // once for all pieces that come before the next frame
    requestAnimationFrame(() => this.#draw());
  }

  fail(error) {
    this.#reason = error.name === 'AbortError' ? 'stopped' : error.message;
  }

  finish() {
    this.#draw();
    const failed = !Object.hasOwn(kEnds, this.#reason);
    const facts = element('span', this.#facts(), { class: failed ? 'facts error' : 'facts' });
    const copying = button('Copy', 'copy', () => copy(this.text, copying));
    document.querySelector('.again')?.remove();  // only the last answer can be asked for again
    const again = button('Regenerate', 'again', () => regenerate(this.#message));
    this.#message.append(element('div', [facts, copying, again], { class: 'foot' }));
    this.#follow(true);
  }

  // Whoever stops an answer is not told how many tokens it has; a piece is a token as a rule.
  #facts() {
    const count = this.#tokens ?? this.#pieces;
    const facts = [`${this.#tokens == null ? 'about ' : ''}${count} token${count === 1 ? '' : 's'}`];
    if (this.#first) facts.push(`${this.#speed(count).toFixed(1)} tokens/s`);
    if (this.#first) facts.push(`first after ${((this.#first - this.#asked) / 1000).toFixed(2)} s`);
    const known = Object.hasOwn(kEnds, this.#reason);
    facts.push(known ? kEnds[this.#reason] : this.#reason || 'the connection ended');
    return facts.join(' · ');
  }

  // From the first token on. Tokens that came together, as behind a proxy or while the browser was
  // busy, count from the question on.
  #speed(count) {
    const time = this.#last - this.#first;
    const together = time < kLeastMs || this.#pieces > kMostTogether * this.#reads;
    return 1000 * (together ? count / (this.#last - this.#asked) : (count - 1) / time);
  }

  #draw() {
    this.#drawing = false;
    const follows = this.#isFollowed();
    if (chats) this.#view.show(this.text);
    else this.#place.textContent = this.text;
    this.#follow(follows);
  }

  #isFollowed() {
    const log = $('log');
    return log.scrollHeight - log.scrollTop - log.clientHeight < kNearEnd;
  }

  #follow(follows) {
    if (follows) $('log').scrollTop = $('log').scrollHeight;
  }
}

async function answer() {
  const mine = running = new AbortController();
  $('send').hidden = true;
  $('stop').hidden = false;
  const written = new Answer();
  try {
    const response = await request(...requestBody(), mine.signal);
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const { data, time } of events(response)) {
      if (data === '[DONE]') break;
      written.take(JSON.parse(data), time);
    }
  } catch (error) {
    written.fail(error);
  }
  if (running !== mine) return;  // another conversation has begun
  running = null;
  written.finish();
  messages.push({ role: 'assistant', content: written.text });
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

function regenerate(message) {
  if (running) return;
  message.remove();
  messages.pop();
  answer();
}

function startAnew() {
  running?.abort();
  running = null;
  messages = [];
  $('send').hidden = false;
  $('stop').hidden = true;
  $('log').replaceChildren();
  $('text').focus();
}

async function refresh() {
  if (document.hidden) return;
  try {
    const response = await request('metrics');
    if (response.ok) showMetrics(await response.text());
  } catch {
    $('speed').textContent = 'no answer';
  }
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
