// Can the verdicts of metrics::compare be trusted? Simulated hours of equal and of broken candidates, asked again and
// again as a rollout does: how often equal sides are called different, how often and how soon a broken candidate is
// stopped, and who passes. Prints the table of tests/bench/results/verdicts-before.txt.
#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <mutex>
#include <regex>
#include <string>
#include <thread>

#include "metrics/compare/comparison/conclusion.hpp"
#include "tests/bench/verdict_traffic.hpp"

namespace weir::bench {
namespace {

namespace comparison = metrics::compare::comparison;
using comparison::Gate;

struct Row {
  enum class Kind : std::uint8_t { equal, broken };
  Kind kind = Kind::equal;
  std::string name;
  Story story;
  double pass_asked = 60;  ///< The minute at which a broken candidate must not pass.
};

std::vector<Row> rows() {
  using enum Row::Kind;
  return {
      {equal, "no drift", {.drift_s = 0}},
      {equal, "drift 60 s", {}},
      {equal, "drift 300 s", {.drift_s = 300}},
      {equal, "drift 1200 s", {.drift_s = 1200}},
      {equal, "bursts of 30 s", {.arrivals = Arrivals::bursts, .slope = 0.026}},
      {equal, "heavy lengths, 1.2/s", {.rate = 1.2, .heavy = true, .slope = 0.0125}},
      {equal, "0.1 % of streams hang", {.hangs = 0.001}},
      {equal, "1.5 % dropped on both", {.drops = 0.015}},
      {equal, "own lengths", {.lengths = Lengths::own}},
      {equal, "own lengths, 24 % cut", {.lengths = Lengths::cut, .slope = 0.041}},
      {equal, "greedy", {.greedy = Greedy::yes}},
      {equal, "greedy, prompts repeat", {.greedy = Greedy::repeated}},
      {equal, "1 % fail", {.fails = 0.01}},
      {equal, "3 % miss by chance", {.slope = 0.015, .misses = 0.03}},
      {equal, "outages, 4 an hour a side", {.outages = 4}},
      {equal, "prompts in a cache", {.cached = true}},
      {equal, "one crash with 12", {.crash = Crash::one}},
      {equal, "one crash, 60 s of restart", {.crash = Crash::restart}},
      {equal, "no streams", {.streams = false}},
      {equal, "history 8 h, drift 300 s", {.drift_s = 300, .history_h = 8}},
      {equal, "history 8 h, drift 1200 s", {.drift_s = 1200, .history_h = 8}},
      {equal, "0.5/s", {.rate = 0.5, .slope = 0.145}},
      {equal, "split, short conversations", {.slope = 0.01, .split = Conversations{.alive = 12, .minutes = 0.3}}},
      {equal,
       "split, short, 2 outages/h a replica",
       {.slope = 0.01, .outages = 2, .split = Conversations{.alive = 12, .minutes = 0.3}}},
      {equal, "split, 40 of 30 min", {.slope = 0.01, .split = Conversations{.alive = 40}}},
      {equal, "split, 200 of 30 min", {.slope = 0.01, .split = Conversations{.alive = 200}}},
      {broken, "TPOT +5 %", {.tpot = 1.05}},
      {broken, "TPOT +10 %", {.tpot = 1.1}},
      {broken, "TPOT +25 %", {.tpot = 1.25}},
      {broken, "TPOT +10 %, drift 300 s", {.drift_s = 300, .tpot = 1.1}},
      {broken, "TTFT +10 %", {.ttft = 1.1}},
      {broken, "TPOT +5 %, history, drift 300 s", {.drift_s = 300, .history_h = 8, .tpot = 1.05}},
      {broken, "0.3 % fail", {.failed = 0.003}},
      {broken, "1 % fail", {.failed = 0.01}},
      {broken, "1.8 % fail", {.failed = 0.018}},
      {broken, "3 % empty", {.empty = 0.03}},
      {broken, "5 % run on to 1000 tokens", {.run_on = 0.05}},
      {broken, "0.5 s freeze in a fifth", {.frozen = {0.2, 0.5}}},
      {broken, "5 % TTFT x3", {.slow_ttft = {0.05, 3}}},
      {broken, "5 % TPOT x3", {.slow_tpot = {0.05, 3}}},
      {broken, "TTFT half x0.5, half x2", {.uneven_ttft = 0.5, .and_others = 2}},
      {broken, "TTFT half x0.4, half x1.6", {.uneven_ttft = 0.4, .and_others = 1.6}},
      {broken, "prompts in a cache, TTFT +17 %", {.cached = true, .ttft = 1.17}},
      {broken, "stands still, once 60 s", {.stops = {{900, 60}}}},
      {broken, "stands still, twice 30 s", {.stops = {{700, 30}, {1500, 30}}}},
      {broken, "TPOT x2 from minute 41, asked at 71", {.minutes = 80, .from_min = 41, .tpot = 2}, 71},
      {broken, "TPOT +10 % from minute 30", {.from_min = 30, .tpot = 1.1}},
      {broken, "half as long", {.lengths = Lengths::own, .length = 0.5}},
      {broken, "20 % longer", {.lengths = Lengths::own, .length = 1.2}},
      {broken, "greedy, hazard x2", {.greedy = Greedy::yes, .hazard = 2}},
      {broken, "no streams, twice as slow", {.streams = false, .tpot = 2, .ttft = 2}},
      {broken, "2 % of calls are invalid", {.bad_tools = 0.02}},
  };
}

constexpr std::array<double, 11> minutes_of_looks{3, 5, 8, 10, 15, 20, 25, 30, 40, 50, 60};
/// Nobody takes a word earlier for a pass.
constexpr double least_pass = 10;

std::vector<double> looks_of(const Row& row) {
  std::vector<double> looks(minutes_of_looks.begin(), minutes_of_looks.end());
  for (const double later : {65.0, 71.0, 79.0})
    if (later < row.story.minutes) looks.push_back(later);
  return looks;
}

/// The minutes at which words were first said in a window, with the objective or without one. A rollout is over at the
/// first `worse`.
struct Words {
  std::optional<double> worse{}, pass{};
  bool passes_when_asked = false;

  bool open() const { return !worse; }
  void add(const Row& row, double minute, Gate word) {
    if (worse) return;
    if (word == Gate::worse) worse = minute;
    if (word != Gate::pass || minute < least_pass || minute <= row.story.from_min) return;
    if (!pass) pass = minute;
    passes_when_asked |= minute == row.pass_asked;
  }
};

struct Seen {
  Words with_slo, without;
  std::optional<double> differs;  ///< The first minute of a verdict that the sides differ.
  /// The figures that differ at that minute; of a broken candidate, when it is stopped or at the last look.
  std::vector<std::string> what;
  std::vector<std::string> open;  ///< The guardrails that are not known at minute 30, with the objective.
  double misses = 0;
};

/// Returns the names of figures by which the sides are not equal.
std::vector<std::string> differences(const comparison::Comparison& found) {
  std::vector<std::string> names;
  const auto add = [&](std::string_view name, std::string_view word) {
    if (word == "better" || word == "worse" || word == "longer" || word == "shorter" || word == "differs")
      names.emplace_back(name);
  };
  for (const auto& verdict : found.verdicts) add(name_of(verdict.figure), name_of(verdict.finding));
  for (const auto& fault : found.faults) add(name_of(fault.fault), name_of(fault.finding));
  add("answers", name_of(found.answers.word));
  return names;
}

/// Returns the gate's word if sentences that begin so did not count.
Gate word_but_for(const comparison::GateResult& gate, std::initializer_list<std::string_view> beginnings) {
  if (gate.worse.empty() && gate.unknown.empty()) return gate.word;
  const auto counts = [&](const std::string& sentence) {
    return std::ranges::none_of(beginnings, [&](std::string_view one) { return sentence.starts_with(one); });
  };
  if (std::ranges::any_of(gate.worse, counts)) return Gate::worse;
  return std::ranges::any_of(gate.unknown, counts) ? Gate::unknown : Gate::pass;
}

/// A split pairs no answers: its failures are counted elsewhere.
constexpr std::string_view of_splits = "failed: the sides", of_objective = "slo:";
Gate word_of(const comparison::GateResult& gate) { return word_but_for(gate, {of_splits}); }

class Watching {
 public:
  Watching(const Row& row, const WindowNames& names, std::uint64_t seed) : row_(row), names_(names) {
    if (row.story.history_h > 0) {
      const Window before = WindowMaker(row.story, names, ~seed).history();
      options_.histories = comparison::histories_of(comparison::couples_of(before.all, names.names, {.seconds = 0}));
      if (options_.histories.empty()) throw std::runtime_error("no history was found");
    }
    window_ = WindowMaker(row.story, names, seed).window();
    seen_.misses = window_.misses;
    options_.a = {metrics::compare::sides::By::config, names.a};
    options_.b = {metrics::compare::sides::By::config, names.b};
    slo_.name = slo_.pool = "chat";
    if (row.story.streams) {
      slo_.ttft_client = config::Seconds(ttft_limit_s);
      slo_.tpot = config::Seconds(tpot_limit_s);
    } else {
      slo_.e2e = config::Seconds(e2e_limit_s);
    }
  }

  Seen run() {
    for (const double minute : looks_of(row_)) {
      if (!seen_.with_slo.open() && !needs_without() && (row_.kind == Row::Kind::broken || seen_.differs)) break;
      look(minute);
    }
    return std::move(seen_);
  }

 private:
  bool needs_without() const {
    if (!seen_.without.open()) return false;
    return row_.kind == Row::Kind::broken || !seen_.without.pass;
  }

  /// The answer without an objective is the same but for the objective's sentences, as a rule: only where they alone
  /// decide is it asked for.
  void look(double minute) {
    const auto samples = window_.ended_by(minute);
    const auto found = ask(samples, true);
    if (row_.kind == Row::Kind::broken ? seen_.with_slo.open() : !seen_.differs) seen_.what = differences(found);
    if (!seen_.differs && !seen_.what.empty()) seen_.differs = minute;
    const auto gate = gate_of(found);
    if (minute == 30)
      for (const auto& sentence : gate.unknown) seen_.open.push_back(sentence.substr(0, sentence.find(':')));
    const Gate with = word_of(gate), but_for = word_but_for(gate, {of_splits, of_objective});
    seen_.with_slo.add(row_, minute, with);
    if (needs_without())
      seen_.without.add(row_, minute, but_for == with ? with : word_of(gate_of(ask(samples, false))));
  }

  comparison::Comparison ask(std::span<const samples::Sample> samples, bool slo) {
    options_.slo = slo ? std::optional(slo_) : std::nullopt;
    return comparison::compare(samples, names_.names, options_);
  }

  const Row& row_;
  const WindowNames& names_;
  comparison::Options options_;
  config::Slo slo_;
  Window window_;
  Seen seen_;
};

std::uint64_t seed_of(const Row& row, std::uint64_t seed, std::uint64_t window) {
  std::vector<std::uint64_t> parts{seed, window};
  parts.insert(parts.end(), row.name.begin(), row.name.end());
  std::seed_seq sequence(parts.begin(), parts.end());
  std::array<std::uint32_t, 2> drawn{};
  sequence.generate(drawn.begin(), drawn.end());
  return (std::uint64_t{drawn[0]} << 32) | drawn[1];
}

/// Returns the results of a row's windows in their order, which does not depend on the number of jobs.
std::vector<Seen> watch(const Row& row, const WindowNames& names, std::size_t windows, std::size_t jobs,
                        std::uint64_t seed) {
  std::vector<Seen> seen(windows);
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto work = [&] {
    try {
      for (std::size_t w; (w = next++) < windows;) {
        seen[w] = Watching(row, names, seed_of(row, seed, w)).run();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = std::current_exception();
      next = windows;
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t job = 1; job < jobs; ++job) threads.emplace_back(work);
  work();
  threads.clear();
  if (error) std::rethrow_exception(error);
  return seen;
}

using Minute = std::optional<double>;

class Printed {
 public:
  explicit Printed(const std::vector<Seen>& seen) : seen_(seen) {}

  template <class Get>
  std::string by(double minute, const Get& get) const {
    return share([&](const Seen& one) {
      const Minute at = get(one);
      return at && *at <= minute;
    });
  }
  template <class Is>
  std::string share(const Is& is) const {
    const auto count = static_cast<double>(std::ranges::count_if(seen_, is));
    return rounded(100 * count / static_cast<double>(seen_.size()));
  }
  /// Returns "-" if fewer than half of the windows got there.
  template <class Get>
  std::string median(const Get& get) const {
    std::vector<double> minutes;
    for (const Seen& one : seen_)
      if (const Minute at = get(one)) minutes.push_back(*at);
    if (2 * minutes.size() <= seen_.size()) return "-";
    std::ranges::sort(minutes);
    return rounded(minutes[seen_.size() / 2]);
  }
  std::string names(std::vector<std::string> Seen::* of) const {
    std::map<std::string, std::size_t> counts;
    for (const Seen& one : seen_)
      for (const std::string& name : one.*of) ++counts[name];
    std::string text;
    for (const auto& [name, count] : counts) text += (text.empty() ? "" : ", ") + name + " " + std::to_string(count);
    return text;
  }
  std::string misses() const {
    double sum = 0;
    for (const Seen& one : seen_) sum += one.misses;
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "%.1f", 100 * sum / static_cast<double>(seen_.size()));
    return text.data();
  }

 private:
  static std::string rounded(double value) { return std::to_string(std::lround(value)); }
  const std::vector<Seen>& seen_;
};

Minute differs(const Seen& one) { return one.differs; }
Minute worse(const Seen& one) { return one.with_slo.worse; }
Minute worse_without(const Seen& one) { return one.without.worse; }
Minute pass(const Seen& one) { return one.with_slo.pass; }
Minute pass_without(const Seen& one) { return one.without.pass; }

void print(Row::Kind kind, const std::string& name, const Printed& of) {
  constexpr double end = 1e9;
  std::printf("| %s | %s |", name.c_str(), of.misses().c_str());
  if (kind == Row::Kind::equal) {
    std::printf(" %s, %s | %s, %s | %s, %s / %s, %s | %s / %s | %s | %s |\n", of.by(40, differs).c_str(),
                of.by(60, differs).c_str(), of.by(40, worse).c_str(), of.by(60, worse).c_str(), of.by(30, pass).c_str(),
                of.by(60, pass).c_str(), of.by(30, pass_without).c_str(), of.by(60, pass_without).c_str(),
                of.median(pass).c_str(), of.median(pass_without).c_str(), of.names(&Seen::what).c_str(),
                of.names(&Seen::open).c_str());
  } else {
    const auto never = [](Minute (*get)(const Seen&)) { return [get](const Seen& one) { return !get(one); }; };
    std::printf(
        " %s, %s, %s / %s | %s / %s | %s / %s | %s / %s | %s |\n", of.by(8, worse).c_str(), of.by(20, worse).c_str(),
        of.by(end, worse).c_str(), of.by(end, worse_without).c_str(), of.median(worse).c_str(),
        of.median(worse_without).c_str(), of.share(never(pass)).c_str(), of.share(never(pass_without)).c_str(),
        of.share([](const Seen& one) { return one.with_slo.passes_when_asked; }).c_str(),
        of.share([](const Seen& one) { return one.without.passes_when_asked; }).c_str(), of.names(&Seen::what).c_str());
  }
  std::fflush(stdout);
}

void print_head(Row::Kind kind) {
  if (kind == Row::Kind::equal) {
    std::printf(
        "\n| equal sides | misses, %% | false verdict by 40, 60 min, %% | gate `worse` by 40, 60, %% | "
        "passes by 30, 60 / without objective, %% | median minute of it | windows by what was false |\n"
        "|---|---:|---:|---:|---:|---:|---|\n");
  } else {
    std::printf(
        "\n| broken candidates | misses, %% | stopped by 8, 20 min, the end / without objective, %% | "
        "median minute of it | never passes, %% | passes at 60, %% | windows by what was found |\n"
        "|---|---:|---:|---:|---:|---:|---|\n");
  }
}

struct Settings {
  std::size_t windows = 60, jobs = 2;
  std::uint64_t seed = 1;
  std::string rows = ".";
};

void run(const Settings& settings) {
  const WindowNames names;
  const std::regex wanted(settings.rows, std::regex::icase);
  std::printf(
      "%zu windows a row, seed %llu. A look at minutes 3, 5, 8, 10, 15, 20, 25, 30, 40, 50 and 60. Drift 60 s, if no "
      "other is named.\n",
      settings.windows, static_cast<unsigned long long>(settings.seed));
  std::optional<Row::Kind> kind;
  for (const Row& row : rows()) {
    if (!std::regex_search(row.name, wanted)) continue;
    if (kind != row.kind) print_head(row.kind);
    kind = row.kind;
    const auto begin = std::chrono::steady_clock::now();
    const auto seen = watch(row, names, settings.windows, settings.jobs, settings.seed);
    print(row.kind, row.name, Printed(seen));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::fprintf(stderr, "%s: %.1f s\n", row.name.c_str(), took.count());
  }
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  CLI::App line("Verdicts on simulated hours of known truth", "bench_verdicts");
  weir::bench::Settings settings;
  line.add_option("--windows", settings.windows, "Windows of each row")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  line.add_option("--rows", settings.rows, "A regular expression: rows whose name has it")->capture_default_str();
  line.add_option("--jobs", settings.jobs, "Windows at a time")->capture_default_str()->check(CLI::Range(1, 64));
  line.add_option("--seed", settings.seed, "Other windows")->capture_default_str();
  CLI11_PARSE(line, argc, argv);
  try {
    weir::bench::run(settings);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "bench_verdicts: " << error.what() << "\n";
    return 1;
  }
}
