// Draws the charts of docs/experiments.md from the reports that tests/bench/experiments left in a folder, with the chart code
// of weir's own pages (metrics/compare/page).
//
// Usage: node tests/bench/experiments_charts.mjs FOLDER [OUT]     (default docs; needs Node.js and Chromium, or CHROMIUM=PROGRAM)
// A chart whose reports are missing is left as it is, and said so.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const root = path.join(path.dirname(fs.realpathSync(process.argv[1])), '..', '..');
const page = path.join(root, 'metrics', 'compare', 'page');
const [folder, out = path.join(root, 'docs')] = process.argv.slice(2);
if (!folder) {
  console.error('experiments_charts: which FOLDER has the reports of tests/bench/experiments?');
  process.exit(2);
}

function browser() {
  for (const program of [process.env.CHROMIUM, 'chromium', 'chromium-browser', 'google-chrome'].filter(Boolean)) {
    try {
      execFileSync(program, ['--version'], { stdio: 'ignore' });
      return program;
    } catch {
      // Another one may be there.
    }
  }
  console.error('experiments_charts: there is no Chromium; install one (apt install chromium), or name it: CHROMIUM=PROGRAM');
  process.exit(1);
}

const report = (name) => JSON.parse(fs.readFileSync(path.join(folder, name + '.json'), 'utf8'));
const cards = ['h800', 'a800', '4090', 'h20'];
const ms = (seconds) => 1e3 * seconds;
const simulated = (name) => name + ', simulated';
const chart = (title, x_label, y_label, series) => ({ kind: 'points', title, hint: '', x_label, y_label, series });

function ofSweep(phase, title, x_label, y_label) {
  return chart(title, x_label, y_label, cards.map((card) => ({
    name: simulated(card),
    points: report('sweep-' + card).sweep.filter((one) => one[phase])
      .map((one) => ({ x: ms(one[phase].latency_s.mean), y: one[phase].tokens_per_second, mark: String(one.concurrency) })),
  })));
}

// Rows of one label are joined. `x` tells where a row stands.
function ofRuns(name, title, x_label, x, mark, label = (row) => row.run) {
  const rows = report(name).runs.filter((row) => row.output_tokens_per_second);
  const point = (row) => ({ x: x(row), y: row.output_tokens_per_second.median, mark: mark(row) });
  const names = [...new Set(rows.map(label))];
  return chart(title, x_label, 'output tokens/s',
    names.map((one) => ({ name: simulated(one), points: rows.filter((row) => label(row) === one).map(point) })));
}

const ttft = (row) => ms(row.ttft_s.median), tpot = (row) => ms(row.tpot_s.median), atOnce = (row) => String(row.concurrency), none = () => '';
const files = {
  'experiments-sweep.png': () => [
    ofSweep('prefill', 'Prefill: by requests at once', 'mean TTFT, ms', 'prompt tokens/s'),
    ofSweep('decode', 'Decode: by requests at once', 'mean time a token, ms', 'output tokens/s')],
  'experiments-users.png': () => [
    chart('E2E against throughput, by users', 'median E2E, s', 'output tokens/s', ['h800', '4090'].map((card) => ({
      name: simulated(card),
      points: report('users-' + card).users.filter((one) => one.e2e_s)
        .map((one) => ({ x: one.e2e_s.p50, y: one.output_tokens_per_second, mark: String(one.users) })),
    })))],
  'experiments-cards.png': () => [
    ofRuns('cards', 'Throughput against TTFT, by requests at once', 'median TTFT, ms', ttft, atOnce),
    ofRuns('cards', 'Throughput against TPOT, by requests at once', 'median TPOT, ms', tpot, atOnce)],
  'experiments-settings.png': () => [
    ofRuns('speculation', 'Speculation: output tokens/s', 'drafted tokens', (row) => row.speculation, (row) => String(row.speculation),
      () => 'a800, 32 at once'),
    ofRuns('halves', 'One whole against two halves', 'median TPOT, ms', tpot, none),
    ofRuns('batching', 'Batching', 'median TTFT, ms', ttft, none)],
};

// Text beside the charts of a page has no place in a picture.
const style = `body { max-width: none; padding: 8px 16px; } h1, h2, footer, .hint, .readout { display: none; } section { margin: 0; }
  .charts { grid-template-columns: repeat(var(--charts), 1fr); margin: 0; gap: 0 24px; }`;

function pageOf(charts) {
  const asset = (name) => fs.readFileSync(path.join(page, name), 'utf8');
  const uplot = (end) => fs.readdirSync(path.join(page, 'uplot')).find((name) => name.endsWith(end));
  const data = { title: '', parts: [{ heading: '', about: 'charts' }, { table: { header: [], rows: [] } }], charts: { charts } };
  const places = {
    title: 'charts', licence: '', without: '', footer: '', report: JSON.stringify(data).replaceAll('<', '\\u003c'),
    uplot_css: asset('uplot/' + uplot('.css')), uplot_js: asset('uplot/' + uplot('.js')),
    page_css: asset('page.css') + style + `:root { --charts: ${charts.length}; }`,
    plots_js: asset('plots.js'), parts_js: asset('parts.js'), scripts: asset('described.js'),
  };
  return asset('page.html').replace(/\{\{(\w+)\}\}/g, (_, name) => places[name]);
}

const program = browser();
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'experiments_charts.'));
let missing = 0;
try {
  for (const [file, draw] of Object.entries(files)) {
    let charts;
    try {
      charts = draw();
    } catch (error) {
      if (error.code !== 'ENOENT') throw error;
      console.error(`experiments_charts: ${file} is left as it is: there is no ${error.path}`);
      ++missing;
      continue;
    }
    const html = path.join(scratch, file + '.html');
    fs.writeFileSync(html, pageOf(charts));
    const width = charts.length === 1 ? 640 : charts.length === 2 ? 1000 : 1330;
    execFileSync(program, ['--headless', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', `--user-data-dir=${scratch}/profile`,
      `--window-size=${width},345`, '--virtual-time-budget=3000', `--screenshot=${path.resolve(out, file)}`, 'file://' + html], { stdio: 'ignore' });
    console.log(path.join(out, file));
  }
} finally {
  fs.rmSync(scratch, { recursive: true, force: true });
}
process.exit(missing > 0 ? 1 : 0);
