// Text with emphasis, code and links to nodes. One pass over the text; what has begun waits in a stack
// until its end comes, and is plain text if that does not come.

const kPunctuation = /[!-/:-@[-`{-~]/;
const kWord = /[\p{L}\p{N}_]/u;
const kNames = { '*': 'em', '**': 'strong', '_': 'em', '__': 'strong', '~~': 'del' };
const kDeepest = 16;  // marks inside of each other
const kSchemes = new Set(['http:', 'https:', 'mailto:']);
const kAddress = /https?:\/\/[^\s<>"`*\\]+/y;
// ](address "title")
const kTarget = /\]\( *([^\s()<>[\]]*(?:\([^\s()<>[\]]*\)[^\s()<>[\]]*)*)(?: +"[^"[\]\n]*")? *\)/y;

function linkTo(address) {
  let url;
  try {
    url = new URL(address);  // no base: nothing of this server
  } catch {
    return null;
  }
  if (!kSchemes.has(url.protocol)) return null;
  const link = document.createElement('a');
  link.href = url.href;
  link.target = '_blank';
  link.rel = 'noopener noreferrer nofollow';
  return link;
}

// Without the punctuation of the sentence around an address.
function lengthWithoutEnd(address) {
  let end = address.length;
  while (end > 0 && '.,:;!?)]\'_~'.includes(address[end - 1])) --end;
  return end;
}

// Where runs of backticks stand, by their lengths; each place is passed once.
class Backticks {
  #places = new Map();

  constructor(text) {
    for (const run of text.matchAll(/`+/g)) {
      const length = run[0].length;
      if (!this.#places.has(length)) this.#places.set(length, { next: 0, all: [] });
      this.#places.get(length).all.push(run.index);
    }
  }

  // The first run of this length behind a place, or -1.
  after(place, length) {
    const runs = this.#places.get(length);
    while (runs.next < runs.all.length && runs.all[runs.next] <= place) ++runs.next;
    return runs.all[runs.next] ?? -1;
  }
}

class Inline {
  #text;
  #frames = [{ mark: '', nodes: [] }];  // marks that wait for their end, outermost first
  #plain = '';

  constructor(text) {
    this.#text = text;
  }

  parse() {
    const text = this.#text;
    const backticks = new Backticks(text);
    for (let at = 0; at < text.length;) {
      const c = text[at];
      if (c === '\\' && kPunctuation.test(text[at + 1] ?? '')) {
        this.#plain += text[at + 1];
        at += 2;
      } else if (c === '`') {
        at = this.#code(at, backticks);
      } else if (c === '*' || c === '_' || c === '~') {
        at = this.#marks(at);
      } else if (c === '[' || (c === '!' && text[at + 1] === '[')) {
        const mark = c === '[' ? c : '![';
        this.#open(mark);
        at += mark.length;
      } else if (c === ']') {
        at = this.#target(at);
      } else if (c === 'h' && !kWord.test(text[at - 1] ?? '')) {
        at = this.#address(at);
      } else {
        this.#plain += c;
        ++at;
      }
    }
    this.#dissolve(1);
    return this.#frames[0].nodes;
  }

  #push(node) {
    this.#flush();
    this.#frames.at(-1).nodes.push(node);
  }

  #flush() {
    if (this.#plain) this.#frames.at(-1).nodes.push(this.#plain);
    this.#plain = '';
  }

  #open(mark) {
    if (this.#frames.length > kDeepest) {
      this.#plain += mark;
      return;
    }
    this.#flush();
    this.#frames.push({ mark, nodes: [] });
  }

  // The marks from this frame on begin nothing.
  #dissolve(from) {
    this.#flush();
    const { nodes } = this.#frames[from - 1];
    for (const frame of this.#frames.splice(from)) {
      nodes.push(frame.mark);
      for (const node of frame.nodes) nodes.push(node);
    }
  }

  // The innermost frame's content inside of `node`.
  #close(node) {
    this.#flush();
    for (const child of this.#frames.pop().nodes) node.append(child);
    this.#frames.at(-1).nodes.push(node);
  }

  #find(isWanted) {
    for (let i = this.#frames.length - 1; i > 0; --i) {
      if (isWanted(this.#frames[i].mark)) return i;
    }
    return 0;
  }

  #code(at, backticks) {
    let begin = at;
    while (this.#text[begin] === '`') ++begin;
    const length = begin - at;
    const end = backticks.after(at, length);
    if (end < 0) {
      this.#plain += this.#text.slice(at, begin);
      return begin;
    }
    const code = document.createElement('code');
    const content = this.#text.slice(begin, end).replaceAll('\n', ' ');
    const padded = content.startsWith(' ') && content.endsWith(' ') && content.trim() !== '';
    code.textContent = padded ? content.slice(1, -1) : content;
    this.#push(code);
    return end + length;
  }

  // A run of one character that begins or ends emphasis.
  #marks(at) {
    const c = this.#text[at];
    let end = at;
    while (this.#text[end] === c) ++end;
    const before = this.#text[at - 1] ?? ' ';
    const after = this.#text[end] ?? ' ';
    const inWord = c === '_' && kWord.test(before) && kWord.test(after);
    const opens = !/\s/.test(after) && !inWord;
    const closes = !/\s/.test(before) && !inWord;
    let left = end - at;
    if (left > 3 || (c === '~' && left !== 2)) {
      this.#plain += c.repeat(left);
      return end;
    }
    while (closes && left > 0) {
      const frame = this.#find((mark) => mark[0] === c && mark.length <= left);
      if (frame === 0) break;
      this.#dissolve(frame + 1);
      const { mark } = this.#frames[frame];
      this.#close(document.createElement(kNames[mark]));
      left -= mark.length;
    }
    while (opens && left > 0) {
      const mark = c.repeat(Math.min(left, 2));
      this.#open(mark);
      left -= mark.length;
    }
    this.#plain += c.repeat(left);
    return end;
  }

  // A bracket that may end the text of a link.
  #target(at) {
    const frame = this.#find((mark) => mark.endsWith('['));
    kTarget.lastIndex = at;
    const target = frame > 0 ? kTarget.exec(this.#text) : null;
    const link = target && linkTo(target[1]);
    if (!link) {
      if (frame > 0) this.#dissolve(frame);
      this.#plain += ']';
      return at + 1;
    }
    this.#dissolve(frame + 1);
    this.#close(link);
    return at + target[0].length;
  }

  // An address that stands in the text as it is.
  #address(at) {
    kAddress.lastIndex = at;
    const found = kAddress.exec(this.#text)?.[0] ?? '';
    const address = this.#text.slice(at, at + Math.max(1, lengthWithoutEnd(found)));
    const outside = this.#find((mark) => mark.endsWith('[')) === 0;  // of another link's text
    const link = found && outside ? linkTo(address) : null;
    if (!link) {
      this.#plain += address;
    } else {
      link.textContent = address;
      this.#push(link);
    }
    return at + address.length;
  }
}

export function inline(text) {
  return new Inline(text).parse();
}
