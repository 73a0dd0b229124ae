// Compares ways to choose a replica in simulated time: weir's, other routers' rules, and an oracle, in front of engine
// models under the workloads of tests/bench/plan/routing_workloads.hpp.
//
// A cell is a workload at a load. Each seed gives a cell's figures, and the tables have means over the seeds. Figures
// count the requests that arrived in a cell's window: after 15 % of the seconds in which requests come and, in a closed
// loop, before 90 % of them. The oracle is no arm that others are compared with: it has a column of its own.
#include <fnmatch.h>
#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "metrics/compare/statistics/intervals.hpp"
#include "tests/bench/command_line.hpp"
#include "tests/bench/plan/routing_workloads.hpp"

namespace {

using namespace weir;
using namespace lab::plan;
namespace json = boost::json;

/// An arm is a way to choose replicas.
struct Arm {
  std::string name;
  config::Policy policy = config::Policy::least_queued_tokens;
  std::optional<Peer> peer{};
  bool prefix_aware = false;
  bool by_name_only = false;
};

constexpr std::string_view oracle = "oracle";

std::vector<Arm> known_arms() {
  using config::Policy;
  return {{"weir", Policy::least_queued_tokens, {}, true},
          {"no_prefixes"},
          {"least_requests", Policy::least_requests},
          {"power_of_two", Policy::power_of_two},
          {"round_robin", Policy::round_robin},
          {"random", Policy::random, {}, false, true},
          {"cache_aware", {}, Peer::cache_aware},
          {"bounded_hash", {}, Peer::bounded_hash},
          {"token_load", {}, Peer::token_load},
          {"sticky", {}, Peer::sticky, false, true},
          {std::string(oracle), {}, Peer::oracle}};
}

struct Options {
  TraceOptions traces;
  std::vector<std::string> workloads, arms, with;
  std::vector<double> loads;
  std::string raw;
  std::uint64_t seeds = 9;
  std::size_t jobs = 2;
  bool capacity = false;
};

/// The figures of an arm in a cell.
struct Figures {
  double ttft_p50 = 0, ttft_p99 = 0, tpot_p50 = 0;
  double e2e_mean = 0, e2e_p50 = 0, e2e_p99 = 0;
  double tokens_per_s = 0;  ///< Of answers that ended in the window.
  double busiest = 0;       ///< The largest share of a replica in the output tokens.
  /// Seconds in which a replica had nothing while another had at least two requests, summed over the replicas.
  double idle = 0;
  double prefilled = 0;  ///< Prompt tokens that were computed in the whole run.
  double lost = 0;       ///< Requests of the window that got no whole answer.
  /// The medians of |predicted / measured - 1|, where weir predicts; otherwise 0.
  double ttft_error = 0, tpot_error = 0;
};

struct Column {
  const char* key;
  double Figures::* figure;
};
constexpr Column columns[] = {
    {"ttft_p50", &Figures::ttft_p50},         {"ttft_p99", &Figures::ttft_p99}, {"tpot_p50", &Figures::tpot_p50},
    {"e2e_mean", &Figures::e2e_mean},         {"e2e_p50", &Figures::e2e_p50},   {"e2e_p99", &Figures::e2e_p99},
    {"tokens_per_s", &Figures::tokens_per_s}, {"busiest", &Figures::busiest},   {"idle_s", &Figures::idle},
    {"prefilled", &Figures::prefilled},       {"lost", &Figures::lost},         {"ttft_error", &Figures::ttft_error},
    {"tpot_error", &Figures::tpot_error}};

/// A cell is named by its workload and its load, which is 0 for a rate of its own.
struct Cell {
  std::string workload;
  double load = 0;
  std::string name() const {
    if (load == 0) return workload;
    char text[16];
    std::snprintf(text, sizeof text, " %.2f", load);
    return workload + text;
  }
};

struct Row {
  Cell cell;
  std::string arm;
  std::uint64_t seed = 0;
  Figures figures;
};

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(values.size());
}

double quantile(std::vector<double>& values, double q) {
  return metrics::compare::statistics::quantile(std::span(values), q);
}

Figures figures_of(const Workload& workload, const Results& results, double seconds) {
  const double from = 0.15 * seconds, to = workload.closed_for ? 0.9 * seconds : seconds;
  Figures figures;
  std::vector<double> ttft, tpot, e2e, ttft_errors, tpot_errors, tokens(workload.engines.size());
  double all = 0, ended = 0;
  for (std::size_t i = 0; i < results.requests.size(); ++i) {
    const Served& served = results.requests[i];
    const auto output = static_cast<double>(workload.requests[i].output_tokens);
    const double end = served.arrived + served.e2e.value_or(never);
    if (end >= from && end <= to) ended += output;
    if (served.arrived < from || served.arrived > to) continue;
    if (!served.e2e) {
      ++figures.lost;
      continue;
    }
    ttft.push_back(*served.ttft);
    if (served.tpot) tpot.push_back(*served.tpot);
    e2e.push_back(*served.e2e);
    if (served.predicted) {
      ttft_errors.push_back(std::abs(served.predicted->ttft / *served.ttft - 1));
      if (served.tpot) tpot_errors.push_back(std::abs(served.predicted->tpot / *served.tpot - 1));
    }
    tokens[served.asked.back()] += output;
    all += output;
  }
  figures.ttft_p50 = quantile(ttft, 0.50);
  figures.ttft_p99 = quantile(ttft, 0.99);
  figures.tpot_p50 = quantile(tpot, 0.50);
  figures.e2e_mean = mean(e2e);
  figures.e2e_p50 = quantile(e2e, 0.50);
  figures.e2e_p99 = quantile(e2e, 0.99);
  if (!ttft_errors.empty()) figures.ttft_error = quantile(ttft_errors, 0.50);
  if (!tpot_errors.empty()) figures.tpot_error = quantile(tpot_errors, 0.50);
  figures.tokens_per_s = ended / (to - from);
  figures.busiest = std::ranges::max(tokens) / all;
  for (const auto& idle : results.idle) {
    const double lasted = std::min(idle.to, to) - std::max(idle.from, from);
    figures.idle += std::max(0.0, lasted) * static_cast<double>(idle.replicas);
  }
  for (const std::uint64_t prefilled : results.prefilled) figures.prefilled += static_cast<double>(prefilled);
  return figures;
}

Figures run_arm(const Workload& workload, const Arm& arm, double load, std::uint64_t seed) {
  Setup setup;
  setup.policy = arm.policy;
  setup.peer = arm.peer;
  setup.prefix_aware = arm.prefix_aware;
  setup.seed = seed;
  setup.engine_seed = seed * 101;
  setup.endless_queue = true;
  return figures_of(workload, serve(workload, setup, load), workload.seconds(load));
}

/// A workload of one seed, which one thread makes and serves at each load by each arm.
struct Job {
  const NamedWorkload* workload = nullptr;
  std::vector<double> loads;
  std::uint64_t seed = 0;
  std::vector<Row> rows{};
};

void run_job(Job& job, const std::vector<Arm>& arms) {
  const Workload workload = job.workload->make(job.seed);
  for (const double load : job.loads) {
    for (const Arm& arm : arms) {
      const Figures figures = run_arm(workload, arm, load, job.seed);
      job.rows.push_back({{job.workload->name, load}, arm.name, job.seed, figures});
    }
  }
}

/// Runs the jobs on so many threads, and says on standard error which are done.
void run_jobs(std::vector<Job>& jobs, const std::vector<Arm>& arms, std::size_t threads) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::size_t done = 0;
  std::exception_ptr failure;
  const auto begun = std::chrono::steady_clock::now();
  const auto work = [&] {
    for (std::size_t j = next++; j < jobs.size(); j = next++) {
      try {
        run_job(jobs[j], arms);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
        next = jobs.size();
        return;
      }
      const std::lock_guard lock(mutex);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
      std::fprintf(stderr, "%5.0f s  %zu of %zu: %s, seed %llu\n", took.count(), ++done, jobs.size(),
                   jobs[j].workload->name.c_str(), static_cast<unsigned long long>(jobs[j].seed));
    }
  };
  std::vector<std::jthread> pool;
  for (std::size_t t = 1; t < threads; ++t) pool.emplace_back(work);
  work();
  pool.clear();
  if (failure) std::rethrow_exception(failure);
}

void write_raw(const std::string& path, const std::vector<Row>& rows) {
  std::ofstream file(path);
  for (const Row& row : rows) {
    json::object line{{"workload", row.cell.workload}, {"load", row.cell.load}, {"arm", row.arm}, {"seed", row.seed}};
    for (const auto& [key, figure] : columns) {
      const double value = row.figures.*figure;
      if (std::isfinite(value)) line[key] = value;
    }
    file << json::serialize(line) << '\n';
  }
  if (!file.flush()) throw std::runtime_error(path + " cannot be written");
}

/// Reads the rows of arm `weir` that another build wrote, up to a seed: FILE, or FILE:NAME with the arm's new name.
std::vector<Row> read_raw(const std::string& option, std::uint64_t last_seed) {
  const std::size_t colon = option.rfind(':');
  const std::string path = option.substr(0, colon);
  const std::string name = colon == std::string::npos ? "before" : option.substr(colon + 1);
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + " cannot be read");
  std::vector<Row> rows;
  for (std::string text; std::getline(file, text);) {
    const json::object line = json::parse(text).as_object();
    if (line.at("arm").as_string() != "weir") continue;
    Row row;
    row.cell = {std::string(line.at("workload").as_string()), line.at("load").to_number<double>()};
    row.arm = name;
    row.seed = line.at("seed").to_number<std::uint64_t>();
    for (const auto& [key, figure] : columns) {
      const json::value* const value = line.if_contains(key);
      row.figures.*figure = value ? value->to_number<double>() : std::numeric_limits<double>::quiet_NaN();
    }
    if (row.seed <= last_seed) rows.push_back(std::move(row));
  }
  return rows;
}

/// The means of all seeds, by cell and arm.
class Table {
 public:
  Table(const std::vector<Job>& jobs, const std::vector<std::vector<Row>>& others) {
    std::map<std::pair<std::string, std::string>, std::vector<const Row*>> rows;
    const auto take = [&](const Row& row) {
      rows[{row.cell.name(), row.arm}].push_back(&row);
      if (std::ranges::find(arms_, row.arm) == arms_.end()) arms_.push_back(row.arm);
    };
    for (const auto& other : others)
      for (const Row& row : other) take(row);
    for (const Job& job : jobs)
      for (const Row& row : job.rows) take(row);
    // Rows of other builds count where this run has the cell.
    for (const Job& job : jobs) {
      for (const double load : job.loads) {
        const std::string name = Cell{job.workload->name, load}.name();
        if (std::ranges::find(cells_, name) == cells_.end()) cells_.push_back(name);
      }
    }
    for (const auto& [key, all] : rows) {
      for (const auto& [name, figure] : columns) {
        std::vector<double> values;
        for (const Row* const row : all)
          if (!std::isnan(row->figures.*figure)) values.push_back(row->figures.*figure);
        means_[key].*figure = mean(values);
      }
    }
  }

  const std::vector<std::string>& cells() const { return cells_; }
  const std::vector<std::string>& arms() const { return arms_; }
  const Figures* find(const std::string& cell, std::string_view arm) const {
    const auto found = means_.find({cell, std::string(arm)});
    return found == means_.end() ? nullptr : &found->second;
  }
  /// Returns the lowest figure of a cell. The oracle does not count.
  double best(const std::string& cell, double Figures::* figure) const {
    double least = std::numeric_limits<double>::infinity();
    for (const std::string& arm : arms_)
      if (const Figures* const figures = arm == oracle ? nullptr : find(cell, arm))
        least = std::min(least, figures->*figure);
    return least;
  }

 private:
  std::vector<std::string> cells_, arms_;
  std::map<std::pair<std::string, std::string>, Figures> means_;
};

void print_cell(const Table& table, const std::string& cell) {
  std::printf("\n%s\n\n", cell.c_str());
  std::printf(
      "| arm            | TTFT p50 s |   p99 s | TPOT p50 ms | E2E mean s |   p50 s |   p99 s | tokens/s |"
      " busiest |  idle s | prefill, 1000 t | lost |\n");
  std::printf(
      "|----------------|-----------:|--------:|------------:|-----------:|--------:|--------:|---------:|"
      "--------:|--------:|----------------:|-----:|\n");
  for (const std::string& arm : table.arms()) {
    const Figures* const f = table.find(cell, arm);
    if (f == nullptr) continue;
    std::printf("| %-14s | %10.3f | %7.3f | %11.1f | %10.3f | %7.3f | %7.3f |", arm.c_str(), f->ttft_p50, f->ttft_p99,
                1e3 * f->tpot_p50, f->e2e_mean, f->e2e_p50, f->e2e_p99);
    std::printf(" %8.0f | %5.1f %% | %7.1f | %15.0f | %4.1f |\n", f->tokens_per_s, 100 * f->busiest, f->idle,
                f->prefilled / 1e3, f->lost);
  }
}

/// Prints each arm's figure by that of the cell's best arm and, for the mean time, by how much weir's is above the
/// oracle's.
void print_ratios(const Table& table, const char* title, double Figures::* figure, bool with_regret) {
  std::printf("\n%s by that of the workload's best arm\n\n| workload                      |", title);
  std::vector<std::string> arms = table.arms();
  std::erase(arms, oracle);
  for (const std::string& arm : arms) std::printf(" %14s |", arm.c_str());
  std::printf("%s\n|-------------------------------|", with_regret ? " regret |" : "");
  for (std::size_t a = 0; a < arms.size(); ++a) std::printf("---------------:|");
  std::printf("%s\n", with_regret ? "-------:|" : "");
  // The cells of shared texts are many, so they have a mean of their own. The last column is the regret.
  std::vector<std::vector<double>> all(arms.size() + 1), shared(all.size()), others(all.size());
  const auto note = [&](std::size_t column, const std::string& cell, double value) {
    all[column].push_back(value);
    (cell.starts_with("shared-") ? shared : others)[column].push_back(value);
  };
  for (const std::string& cell : table.cells()) {
    std::printf("| %-29s |", cell.c_str());
    for (std::size_t a = 0; a < arms.size(); ++a) {
      const Figures* const figures = table.find(cell, arms[a]);
      if (figures == nullptr) {
        std::printf(" %14s |", "-");
        continue;
      }
      const double ratio = figures->*figure / table.best(cell, figure);
      note(a, cell, ratio);
      std::printf(" %14.3f |", ratio);
    }
    if (with_regret) {
      const Figures* const weir = table.find(cell, "weir");
      const Figures* const least = table.find(cell, oracle);
      if (weir != nullptr && least != nullptr) {
        const double regret = 100 * (weir->*figure / (least->*figure) - 1);
        note(arms.size(), cell, regret);
        std::printf(" %4.1f %% |", regret);
      } else {
        std::printf(" %6s |", "-");
      }
    }
    std::printf("\n");
  }
  const auto print_line = [&](const char* name, const std::vector<std::vector<double>>& of, const auto& summary) {
    std::printf("| %-29s |", name);
    for (std::size_t a = 0; a < arms.size(); ++a) std::printf(" %14.3f |", summary(of[a]));
    if (with_regret) std::printf(" %4.1f %% |", summary(of.back()));
    std::printf("\n");
  };
  print_line("mean of shared-*", shared, mean);
  print_line("mean of the others", others, mean);
  print_line("mean", all, mean);
  print_line("worst", all, [](const std::vector<double>& values) {
    return values.empty() ? std::numeric_limits<double>::quiet_NaN() : std::ranges::max(values);
  });
}

bool is_chosen(const std::vector<std::string>& globs, const std::string& name) {
  const auto matches = [&](const std::string& glob) { return fnmatch(glob.c_str(), name.c_str(), 0) == 0; };
  return globs.empty() || std::ranges::any_of(globs, matches);
}

/// Prints the median requests/s that the replicas of each workload answer together.
void print_capacities(const std::vector<NamedWorkload>& workloads, std::uint64_t seeds) {
  for (const NamedWorkload& workload : workloads) {
    std::vector<double> capacities;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) capacities.push_back(workload.make(seed).capacity);
    std::printf("%.3f\n", quantile(capacities, 0.5));
  }
}

void run(const Options& options) {
  std::vector<NamedWorkload> workloads = routing_workloads(options.traces);
  std::erase_if(workloads, [&](const NamedWorkload& one) { return !is_chosen(options.workloads, one.name); });
  if (workloads.empty()) throw std::runtime_error("no workload has such a name");
  if (options.capacity) return print_capacities(workloads, options.seeds);
  std::vector<Arm> arms = known_arms();
  std::erase_if(arms, [&](const Arm& arm) {
    return options.arms.empty() ? arm.by_name_only : std::ranges::find(options.arms, arm.name) == options.arms.end();
  });
  std::vector<std::vector<Row>> others;
  for (const std::string& with : options.with) others.push_back(read_raw(with, options.seeds));

  std::vector<Job> jobs;
  for (const NamedWorkload& workload : workloads) {
    std::vector<double> loads = workload.loads;
    if (loads.empty()) {
      loads = {0};
    } else if (!options.loads.empty()) {
      loads = options.loads;
    }
    for (std::uint64_t seed = 1; seed <= options.seeds; ++seed) jobs.push_back({&workload, loads, seed});
  }
  run_jobs(jobs, arms, options.jobs);
  if (!options.raw.empty()) {
    std::vector<Row> rows;
    for (const Job& job : jobs) rows.insert(rows.end(), job.rows.begin(), job.rows.end());
    write_raw(options.raw, rows);
  }
  const Table table(jobs, others);
  std::printf("Means of %llu seeds.\n", static_cast<unsigned long long>(options.seeds));
  for (const std::string& cell : table.cells()) print_cell(table, cell);
  print_ratios(table, "E2E mean", &Figures::e2e_mean, true);
  print_ratios(table, "TTFT p99", &Figures::ttft_p99, false);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.traces.mooncake = WEIR_TEST_DATA "/traces/mooncake_conversation.jsonl";
  bench::CommandLine line("bench_routing", "Ways to choose a replica, in simulated time", options.traces.conversations);
  line.add("--mooncake", options.traces.mooncake, "Mooncake's conversation trace, or a part of it");
  line.add("--requests", options.traces.requests, "Requests of workload `trace`", 100, 10'000'000);
  line.add_flag("--in-order", options.traces.in_order, "Begin workload `trace` at the first entry in every run");
  line.add("--slow-speed", options.traces.slow_speed, "Speed of the fourth replica of workload `trace`", 0.01, 100.0);
  line.add_flag("--capacity", options.capacity, "Print the requests/s that the replicas answer together, and no more");
  std::vector<std::string> names;
  for (const Arm& arm : known_arms()) names.push_back(arm.name);
  line.add_option("--workload", options.workloads, "Only these; shell patterns");
  line.add_option("--arm", options.arms, "Only these")->check(CLI::IsMember(names));
  line.add_option("--load", options.loads, "In place of a workload's own loads: shares of what the replicas can do")
      ->check(CLI::Range(0.01, 10.0));
  line.add("--seeds", options.seeds, "Runs for each row; the tables have their means", 1, 1000);
  line.add("--jobs", options.jobs, "Threads", 1, 256);
  line.add_option("--raw", options.raw, "Write each seed's figures to this file, as lines of JSON");
  line.add_option("--with", options.with,
                  "FILE[:NAME]: take the rows of arm weir of such a file as an arm of this name (before)");
  return line.run(argc, argv, [&] { run(options); });
}
