// bench_accuracy_report compares weir's figures with the replica's truth, request by request, and says whether they
// agree.
//
// Usage: bench_accuracy_report DIR DIR is what tests/bench/accuracy leaves: for each run CLOCK.ROUND the truth
// (bench_accuracy_replica), the client's notes (bench_accuracy_client), weir's request log, and /metrics before and
// after each act. A request is found in all of them by its model. The program exits 1 if the goal is missed with the
// kernel's clock, or if a figure is missing.
//
// The truth is this, with t(x) the moment just before the replica's send of x:
//   ttft   t(first token event) - the kernel's stamp of the request's arrival at the replica
//   tpot   (t(last event with a choice) - t(first token event)) / (n - n1)
//   e2e    t(last event with a choice) - the client's send of the request
//   itl    t(token event) - t(the one before). weir logs a stream's gaps in bins of 1.6 %, which show an error only
//          where it leaves the bin: both sides' gaps are sorted, and each error is the distance of a true gap from its
//          bin.
// For a pair, tpot is its only gap, in nanoseconds.
#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr double goal_median_ms = 0.05, goal_p99_ms = 1;

const std::vector<std::string> schedules{"steady", "bursty", "several", "untold", "prefill",
                                         "merged", "batch",  "spread",  "pair"};

/// If tokens an event are unknown, so is n1, and weir's tpot is (tL - t1) / (n - 1), which by definition is not the
/// truth.
bool tokens_untold(const std::string& schedule) { return schedule == "untold"; }

std::map<std::string, json::object> by_model(const fs::path& path) {
  std::map<std::string, json::object> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    auto object = json::parse(line).as_object();
    if (!object.at("model").is_string()) continue;
    std::string model(object.at("model").as_string());
    lines.emplace(std::move(model), std::move(object));
  }
  return lines;
}

double number(const json::object& of, std::string_view key) {
  return of.at(json::string_view(key.data(), key.size())).to_number<double>();
}

/// Returns the milliseconds between two moments in nanoseconds.
double ms(std::int64_t from, std::int64_t to) { return static_cast<double>(to - from) / 1e6; }

std::int64_t moment(const json::object& of, const char* key) { return of.at(key).to_number<std::int64_t>(); }

struct Truth {
  std::vector<std::int64_t> before;
  std::vector<int> tokens;
  std::int64_t arrived = 0, last = 0;
  double n = 0;
  double ttft() const { return ms(arrived, before.front()); }
  double tpot() const { return ms(before.front(), last) / (n - tokens.front()); }
};

Truth truth_of(const json::object& line, std::vector<double>& widths) {
  Truth truth;
  truth.arrived = moment(line, "arrived");
  truth.last = moment(line, "last");
  truth.n = number(line, "n");
  for (const auto& event : line.at("events").as_array()) {
    const auto& parts = event.as_array();
    truth.before.push_back(parts[0].to_number<std::int64_t>());
    widths.push_back(ms(truth.before.back(), parts[1].to_number<std::int64_t>()));
    truth.tokens.push_back(parts[2].to_number<int>());
  }
  return truth;
}

/// Returns the lower edge of a bin of the request log's gap_bins, in ms: 64 bins to every doubling, from 1 us; bin 0
/// lies below that.
double edge_ms(int bin) {
  if (bin == 0) return 0;
  return std::ldexp(0.001, (bin - 1) / 64) * (1 + (bin - 1) % 64 / 64.0);
}

/// Returns how far each true gap lies outside the bin in which weir put it; nothing if the numbers of gaps differ.
std::optional<std::vector<double>> gap_errors(const Truth& truth, const json::array& bins) {
  std::vector<double> gaps, errors;
  for (std::size_t i = 1; i < truth.before.size(); ++i) gaps.push_back(ms(truth.before[i - 1], truth.before[i]));
  std::sort(gaps.begin(), gaps.end());
  std::size_t at = 0;
  for (const auto& one : bins) {
    const int bin = one.as_array()[0].to_number<int>();
    for (auto count = one.as_array()[1].to_number<std::int64_t>(); count > 0; --count, ++at) {
      if (at == gaps.size()) return std::nullopt;
      errors.push_back(std::max({0.0, edge_ms(bin) - gaps[at], gaps[at] - edge_ms(bin + 1)}));
    }
  }
  if (at != gaps.size()) return std::nullopt;
  return errors;
}

double quantile(std::vector<double>& values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size() - 1)))];
}

/// A mean, as a histogram's sum and count.
struct Sum {
  double sum = 0, count = 0;
  void add(double value, double times = 1) {
    sum += value * times;
    count += times;
  }
  double mean() const { return count > 0 ? sum / count : 0; }
};

/// The errors of weir on one schedule under one clock, all rounds together, in milliseconds.
struct Errors {
  std::size_t requests = 0, missing = 0;
  std::map<std::string, std::vector<double>> of;  ///< |weir - truth|, by figure.
  std::map<std::string, std::vector<double>> signed_of;
};

/// The figures of the rules on one schedule, in milliseconds, one value a request.
struct Said {
  std::map<std::string, std::vector<double>> of;
  bool comments = false;
};

const std::vector<std::string> figures{"ttft", "tpot", "e2e", "itl"};
const std::map<std::string, std::string> series{{"ttft", "weir_time_to_first_token_seconds"},
                                                {"tpot", "weir_time_per_output_token_seconds"},
                                                {"itl", "weir_inter_token_latency_seconds"},
                                                {"icl", "weir_inter_chunk_latency_seconds"}};

/// The key is schedule and clock.
template <class Value>
using ByRun = std::map<std::pair<std::string, std::string>, Value>;

/// Calls `with(schedule, clock, value)` for all that there are, in the order of the tables.
template <class Value, class With>
void each(ByRun<Value>& of, const With& with) {
  for (const auto& schedule : schedules)
    for (const std::string clock : {"kernel", "read"})
      if (const auto found = of.find({schedule, clock}); found != of.end()) with(schedule, clock, found->second);
}

/// Returns the sum of all series of one name in a scrape.
double scraped(const fs::path& path, const std::string& name) {
  std::ifstream file(path);
  double sum = 0;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name + "{") || line.starts_with(name + " "))
      sum += std::strtod(line.c_str() + line.rfind(' '), nullptr);
  return sum;
}

class Report {
 public:
  explicit Report(fs::path directory) : directory_(std::move(directory)) {}
  void read();
  void print();
  bool good() const { return failures_.empty(); }

 private:
  void read_run(const std::string& clock, const std::string& round);
  void read_request(const std::string& clock, const std::string& model, const json::object& truth,
                    const json::object* weir, const json::object* client);
  void note_rules(const std::string& schedule, const Truth& truth, const json::object& weir,
                  const json::object& client);
  void true_sums(const std::string& clock, const std::string& schedule, const Truth& truth);
  void print_errors();
  void print_metrics();
  void print_rules();
  void judge(const std::string& clock, const std::string& schedule, Errors& errors);

  fs::path directory_;
  ByRun<Errors> errors_;
  /// By figure. What runs beside batch counts with it, as on /metrics.
  ByRun<std::map<std::string, Sum>> true_, scraped_;
  std::map<std::string, Said> said_;
  std::vector<double> widths_;
  std::vector<std::string> failures_;
};

void Report::read() {
  std::vector<fs::path> truths;
  for (const auto& entry : fs::directory_iterator(directory_))
    if (entry.path().extension() == ".truth") truths.push_back(entry.path());
  if (truths.empty()) throw std::runtime_error("there is no truth in " + directory_.string());
  for (const auto& path : truths) {
    const auto run = path.stem().string();
    const auto dot = run.find('.');
    read_run(run.substr(0, dot), run.substr(dot + 1));
  }
}

void Report::read_run(const std::string& clock, const std::string& round) {
  const auto run = clock + "." + round;
  const auto truths = by_model(directory_ / (run + ".truth"));
  const auto weir = by_model(directory_ / (run + ".weir"));
  const auto clients = by_model(directory_ / (run + ".client"));
  const auto line_of = [](const auto& lines, const std::string& model) {
    const auto found = lines.find(model);
    return found == lines.end() ? nullptr : &found->second;
  };
  for (const auto& [model, client] : clients) {
    const auto* const truth = line_of(truths, model);
    if (truth == nullptr) throw std::runtime_error(run + ": no truth of " + model);
    read_request(clock, model, *truth, line_of(weir, model), &client);
  }
  for (const auto& act : schedules)
    for (const auto& [figure, name] : series) {
      const auto before = directory_ / (run + "." + act + ".before"), after = directory_ / (run + "." + act + ".after");
      auto& to = scraped_[{act, clock}][figure];
      to.sum += 1000 * (scraped(after, name + "_sum") - scraped(before, name + "_sum"));
      to.count += scraped(after, name + "_count") - scraped(before, name + "_count");
    }
}

void Report::read_request(const std::string& clock, const std::string& model, const json::object& line,
                          const json::object* weir, const json::object* client) {
  const auto schedule = model.substr(0, model.find('-'));
  const auto truth = truth_of(line, widths_);
  auto& errors = errors_[{schedule, clock}];
  ++errors.requests;
  true_sums(clock, schedule, truth);
  if (weir == nullptr || weir->at("outcome").as_string() != "ok" || weir->at("ttft_s").is_null() ||
      weir->at("tpot_s").is_null() || weir->at("e2e_s").is_null()) {
    ++errors.missing;
    return;
  }
  const auto note = [&](const std::string& figure, double said, double real) {
    errors.of[figure].push_back(std::abs(said - real));
    errors.signed_of[figure].push_back(said - real);
  };
  note("ttft", number(*weir, "ttft_s") * 1000, truth.ttft());
  note("tpot", number(*weir, "tpot_s") * 1000, truth.tpot());
  note("e2e", number(*weir, "e2e_s") * 1000, ms(moment(*client, "sent"), truth.last));
  const auto gaps = gap_errors(truth, weir->at("gap_bins").as_array());
  const bool k_known = !weir->at("k_source").is_null() && weir->at("k_source").as_string() != "unknown";
  if (!gaps || k_known == tokens_untold(schedule)) {
    ++errors.missing;
    return;
  }
  auto& all = errors.of["itl"];
  all.insert(all.end(), gaps->begin(), gaps->end());
  if (clock == "kernel") note_rules(schedule, truth, *weir, *client);
}

void Report::true_sums(const std::string& clock, const std::string& schedule, const Truth& truth) {
  auto& sums = true_[{schedule == "pair" ? "batch" : schedule, clock}];
  sums["ttft"].add(truth.ttft());
  sums["tpot"].add(truth.tpot());
  for (std::size_t i = 1; i < truth.before.size(); ++i) {
    const double gap = ms(truth.before[i - 1], truth.before[i]);
    sums["icl"].add(gap);
    if (!tokens_untold(schedule)) sums["itl"].add(gap / truth.tokens[i], truth.tokens[i]);
  }
}

void Report::note_rules(const std::string& schedule, const Truth& truth, const json::object& weir,
                        const json::object& client) {
  auto& said = said_[schedule];
  const auto since_sent = [&](const char* key) { return ms(moment(client, "sent"), moment(client, key)); };
  const auto gaps = number(client, "chunks") - 1;
  said.comments |= client.at("comment").as_bool();
  said.of["truth ttft"].push_back(truth.ttft());
  said.of["truth itl"].push_back(truth.tpot());
  said.of["weir ttft"].push_back(number(weir, "ttft_s") * 1000);
  said.of["weir itl"].push_back(number(weir, "tpot_s") * 1000);
  said.of["first byte ttft"].push_back(since_sent("first_byte"));
  said.of["vllm ttft"].push_back(since_sent("first_chunk"));
  said.of["vllm itl"].push_back((since_sent("last_chunk") - since_sent("first_chunk")) / gaps);
  said.of["llmperf ttft"].push_back(since_sent("first_content"));
  said.of["llmperf itl"].push_back(since_sent("last_content") / truth.n);
}

void Report::judge(const std::string& clock, const std::string& schedule, Errors& errors) {
  const auto where = schedule + ", clock = " + clock + ": ";
  if (errors.missing > 0)
    failures_.push_back(where + std::to_string(errors.missing) + " requests without the figures that they should have");
  if (clock != "kernel") return;
  for (const auto& figure : figures) {
    if (tokens_untold(schedule) && figure == "tpot") continue;
    auto& values = errors.of[figure];
    const double median = quantile(values, 0.5), p99 = quantile(values, 0.99);
    if (median < goal_median_ms && p99 < goal_p99_ms) continue;
    char text[96];
    std::snprintf(text, sizeof text, "%s is off by %.3f ms in the median, %.3f ms at p99", figure.c_str(), median, p99);
    failures_.push_back(where + text);
  }
}

void Report::print_errors() {
  std::printf("How far weir is from the truth, ms (median, p99, largest of the absolute error):\n\n");
  std::printf("| schedule | clock | requests |");
  for (const auto& figure : figures) std::printf(" %s p50 | p99 | max |", figure.c_str());
  std::printf("\n|---|---|---:|");
  for (std::size_t i = 0; i < figures.size(); ++i) std::printf("---:|---:|---:|");
  std::printf("\n");
  each(errors_, [&](const std::string& schedule, const std::string& clock, Errors& errors) {
    std::printf("| %s | %s | %zu |", schedule.c_str(), clock.c_str(), errors.requests);
    for (const auto& figure : figures) {
      auto& values = errors.of[figure];
      std::printf(" %.3f | %.3f | %.3f |", quantile(values, 0.5), quantile(values, 0.99), quantile(values, 1));
    }
    std::printf("\n");
    judge(clock, schedule, errors);
  });
  std::printf("\nMedian of weir's figure less the truth, us:\n\n| schedule | clock | ttft | tpot | e2e |\n");
  std::printf("|---|---|---:|---:|---:|\n");
  each(errors_, [&](const std::string& schedule, const std::string& clock, Errors& errors) {
    std::printf("| %s | %s |", schedule.c_str(), clock.c_str());
    for (const char* figure : {"ttft", "tpot", "e2e"})
      std::printf(" %.1f |", 1000 * quantile(errors.signed_of[figure], 0.5));
    std::printf("\n");
  });
  std::printf("\nThe replica's send(2), within which the true moment lies: %.1f us in the median, %.1f us at p99.\n",
              1000 * quantile(widths_, 0.5), 1000 * quantile(widths_, 0.99));
}

void Report::print_metrics() {
  std::printf(
      "\nMeans from /metrics (sum / count) less those of the truth, us, and observations too many or too few:\n\n");
  std::printf("| schedule | clock |");
  for (const auto& [figure, name] : series) std::printf(" %s | count |", figure.c_str());
  std::printf("\n|---|---|");
  for (std::size_t i = 0; i < series.size(); ++i) std::printf("---:|---:|");
  std::printf("\n");
  each(true_, [&](const std::string& schedule, const std::string& clock, std::map<std::string, Sum>& sums) {
    std::printf("| %s | %s |", schedule.c_str(), clock.c_str());
    for (const auto& [figure, name] : series) {
      const auto& real = sums[figure];
      const auto& said = scraped_[{schedule, clock}][figure];
      const double off = said.mean() - real.mean();
      if (real.count == 0 && said.count == 0)
        std::printf(" unknown | 0 |");
      else
        std::printf(" %.1f | %.0f |", 1000 * off, said.count - real.count);
      const bool wrong = std::abs(off) >= goal_median_ms && !(tokens_untold(schedule) && figure == "tpot");
      if (said.count == real.count && !(clock == "kernel" && wrong)) continue;
      char text[96];
      std::snprintf(text, sizeof text, "the mean is off by %.3f ms, the count by %.0f", off, said.count - real.count);
      failures_.push_back(schedule + ", clock = " + clock + ": " + name + ": " + text);
    }
    std::printf("\n");
  });
}

void Report::print_rules() {
  std::printf(
      "\nWhat each rule says of the same streams, ms, clock = kernel. TTFT: median over the requests; time between\n");
  std::printf(
      "tokens: median of a request's mean (truth and weir: tpot; vLLM's bench and LLMPerf: what they call ITL).\n\n");
  std::printf(
      "| schedule | TTFT: truth | weir | LLMPerf | vLLM's bench | first byte | a token: truth | weir | vLLM's bench | "
      "LLMPerf |\n");
  std::printf("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
  for (const auto& schedule : schedules) {
    const auto found = said_.find(schedule);
    if (found == said_.end()) continue;
    auto& said = found->second;
    std::printf("| %s |", schedule.c_str());
    for (const char* column : {"truth ttft", "weir ttft", "llmperf ttft", "vllm ttft", "first byte ttft", "truth itl",
                               "weir itl", "vllm itl", "llmperf itl"}) {
      const bool breaks_off = said.comments && std::string_view(column).starts_with("llmperf");
      if (breaks_off)
        std::printf(" breaks off |");
      else
        std::printf(" %.2f |", quantile(said.of[column], 0.5));
    }
    std::printf("\n");
  }
}

void Report::print() {
  print_errors();
  print_metrics();
  print_rules();
  std::printf("\n");
  for (const auto& failure : failures_) std::printf("MISSED: %s\n", failure.c_str());
  if (good())
    std::printf(
        "Within the goal: with the kernel's clock every median error is below %.2f ms, every p99 below %.0f ms.\n",
        goal_median_ms, goal_p99_ms);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: bench_accuracy_report DIR\n");
    return 2;
  }
  try {
    Report report(argv[1]);
    report.read();
    report.print();
    return report.good() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_accuracy_report: %s\n", error.what());
    return 1;
  }
}
