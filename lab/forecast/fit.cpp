#include "lab/forecast/fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>

#include "lab/load/traces/formats.hpp"
#include "lab/text.hpp"
#include "metrics/compare/statistics/intervals.hpp"

namespace weir::lab::forecast {
namespace {

constexpr std::size_t unknowns = 5;  ///< base, prefill, sequence, kv, overhead.
using Vector = std::array<double, unknowns>;
using Matrix = std::array<Vector, unknowns>;

/// `factors` times the constants is `seconds`.
struct Equation {
  Vector factors{};
  double seconds = 0;
  double steps = 1;  ///< A mean of more steps is more exact.
};

double product(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < unknowns; ++i) sum += a[i] * b[i];
  return sum;
}

/// Solves the normal equations for the unknowns of the set, a bit each; the others are 0. Returns nothing if they are
/// not determined.
std::optional<Vector> solve(Matrix left, Vector right, unsigned set) {
  for (std::size_t i = 0; i < unknowns; ++i) {
    if ((set >> i & 1) != 0) continue;
    for (std::size_t j = 0; j < unknowns; ++j) left[i][j] = left[j][i] = 0;
    left[i][i] = 1;
    right[i] = 0;
  }
  for (std::size_t i = 0; i < unknowns; ++i) {
    // The diagonal was scaled to 1, so a small pivot is what rounding left of a dependent unknown.
    if (left[i][i] < 1e-9) return std::nullopt;
    for (std::size_t k = i + 1; k < unknowns; ++k) {
      const double factor = left[k][i] / left[i][i];
      for (std::size_t j = i; j < unknowns; ++j) left[k][j] -= factor * left[i][j];
      right[k] -= factor * right[i];
    }
  }
  Vector x{};
  for (std::size_t i = unknowns; i-- > 0;) {
    double rest = right[i];
    for (std::size_t j = i + 1; j < unknowns; ++j) rest -= left[i][j] * x[j];
    x[i] = rest / left[i][i];
  }
  return x;
}

/// Returns the weighted least squares without negative unknowns: the best of all sets of unknowns that are not 0.
std::optional<Vector> least_squares(std::span<const Equation> equations, std::span<const double> weights) {
  Matrix left{};
  Vector right{};
  for (std::size_t e = 0; e < equations.size(); ++e) {
    for (std::size_t i = 0; i < unknowns; ++i) {
      for (std::size_t j = 0; j < unknowns; ++j)
        left[i][j] += weights[e] * equations[e].factors[i] * equations[e].factors[j];
      right[i] += weights[e] * equations[e].factors[i] * equations[e].seconds;
    }
  }
  Vector scale{};
  for (std::size_t i = 0; i < unknowns; ++i) scale[i] = left[i][i] > 0 ? 1 / std::sqrt(left[i][i]) : 0;
  for (std::size_t i = 0; i < unknowns; ++i) {
    for (std::size_t j = 0; j < unknowns; ++j) left[i][j] *= scale[i] * scale[j];
    right[i] *= scale[i];
  }
  std::optional<Vector> best;
  double most = 0;
  for (unsigned set = 1; set < 1U << unknowns; ++set) {
    const auto x = solve(left, right, set);
    if (!x || std::ranges::any_of(*x, [](double value) { return value < 0; })) continue;
    // At the optimum of a set the sum of squares is a constant less this product.
    const double explained = product(right, *x);
    if (explained <= most) continue;
    most = explained;
    best = *x;
  }
  if (best)
    for (std::size_t i = 0; i < unknowns; ++i) (*best)[i] *= scale[i];
  return best;
}

bool is_ttft(const Equation& equation) { return equation.factors[unknowns - 1] > 0; }

/// Where an answer was held back and came at once, its time per token is next to nothing. A relative error of that
/// would decide alone: no time counts for more than one of this length.
double least_of(std::span<const Equation> equations, bool ttft) {
  std::vector<double> all;
  for (const Equation& equation : equations)
    if (is_ttft(equation) == ttft) all.push_back(equation.seconds);
  return all.empty() ? 0 : metrics::compare::statistics::median(std::span(all)) / 4;
}

std::optional<EngineFit> fit(std::span<const Equation> equations) {
  std::vector<double> weights(equations.size()), errors(equations.size());
  const double least_ttft = least_of(equations, true), least_tpot = least_of(equations, false);
  const auto exactness = [&](std::size_t e) {
    const double seconds = std::max(equations[e].seconds, is_ttft(equations[e]) ? least_ttft : least_tpot);
    return std::min(equations[e].steps, 64.0) / (seconds * seconds);
  };
  for (std::size_t e = 0; e < equations.size(); ++e) weights[e] = exactness(e);
  EngineFit fitted;
  for (int round = 0; round < 10; ++round) {
    const auto x = least_squares(equations, weights);
    if (!x || (*x)[0] <= 0) return std::nullopt;
    fitted.base = (*x)[0];
    fitted.prefill = (*x)[1];
    fitted.sequence = (*x)[2];
    fitted.kv = (*x)[3];
    fitted.overhead = (*x)[4];
    for (std::size_t e = 0; e < equations.size(); ++e)
      errors[e] = std::abs(product(equations[e].factors, *x) / equations[e].seconds - 1);
    std::vector<double> sorted = errors;
    fitted.error = metrics::compare::statistics::median(std::span(sorted));
    const double bound = std::max(1e-6, 2 * fitted.error);
    for (std::size_t e = 0; e < equations.size(); ++e)
      weights[e] = exactness(e) * std::min(1.0, bound / std::max(errors[e], 1e-12));
  }
  fitted.equations = equations.size();
  return fitted;
}

/// A request's course on its replica.
struct Course {
  double sent = 0, first = 0, last = 0;
  const LoggedRequest* request = nullptr;
};

double overlap(double a, double b, double c, double d) { return std::max(0.0, std::min(b, d) - std::max(a, c)); }

/// The work of a replica in a span of time.
struct Work {
  double decoding = 0, resident = 0;  ///< Means.
  double prefilled = 0;               ///< Tokens.
  bool other_prefill = false;         ///< Another prompt waited or was computed.
};

/// The courses of a replica, in the order in which they were sent.
class Courses {
 public:
  Courses(const ServedLog& log, std::size_t replica, double usual_tpot) {
    for (const LoggedRequest& request : log.requests) {
      if (request.replica != replica) continue;
      Course course{request.sent, request.sent, std::max(request.sent, request.ended), &request};
      const auto after_first = static_cast<double>(request.output_tokens - 1);
      if (request.ttft) {
        course.first = request.sent + *request.ttft;
        if (request.tpot) course.last = course.first + *request.tpot * after_first;
      } else {
        course.first = std::max(request.sent, course.last - usual_tpot * after_first);
      }
      course.last = std::max(course.last, course.first);
      longest_ = std::max(longest_, course.last - course.sent);
      all_.push_back(course);
    }
    std::ranges::sort(all_, {}, &Course::sent);
  }

  std::span<const Course> all() const { return all_; }

  /// Returns the work from `from` to `to`, for one who has `self`. `per_token` is the believed time of a prompt token.
  Work between(double from, double to, const Course& self, double per_token) const {
    Work work;
    const auto begin = std::ranges::lower_bound(all_, from - longest_, {}, &Course::sent);
    const double length = std::max(to - from, 1e-9);
    for (auto it = begin; it != all_.end() && it->sent < to; ++it) {
      const Course& other = *it;
      if (other.last < from) continue;
      const bool is_self = other.request == self.request;
      const auto uncached = static_cast<double>(other.request->uncached_tokens());
      if (const double shared = overlap(from, to, other.first, other.last); shared > 0) {
        const double middle = (std::max(from, other.first) + std::min(to, other.last)) / 2;
        const double done = other.last > other.first ? (middle - other.first) / (other.last - other.first) : 0;
        work.decoding += shared / length;
        work.resident += shared / length *
                         (static_cast<double>(other.request->prompt_tokens) +
                          done * static_cast<double>(other.request->output_tokens));
      }
      if (is_self) continue;
      if (overlap(from, to, other.sent, other.first) > 0) work.other_prefill = true;
      // A prompt is computed in the steps before its first token, the last of which ends with it.
      const double begun = std::max(other.sent, other.first - per_token * uncached);
      if (other.first - begun > 1e-9) {
        work.prefilled += uncached * overlap(from, to, begun, other.first) / (other.first - begun);
      } else if (other.first > from && other.first <= to) {
        work.prefilled += uncached;
      }
    }
    return work;
  }

 private:
  std::vector<Course> all_;
  double longest_ = 0;
};

std::vector<Equation> equations_of(const Courses& courses, std::uint32_t budget, double per_token) {
  constexpr std::uint64_t least_steps = 8;
  std::vector<Equation> equations;
  for (const Course& course : courses.all()) {
    const LoggedRequest& request = *course.request;
    if (!request.ttft) continue;
    if (request.tpot && *request.tpot > 0 && request.output_tokens > least_steps) {
      const auto steps = static_cast<double>(request.output_tokens - 1);
      const Work work = courses.between(course.first, course.last, course, per_token);
      equations.push_back({{1, work.prefilled / steps, work.decoding, work.resident, 0}, *request.tpot, steps});
    }
    if (*request.ttft <= 0) continue;
    const Work work = courses.between(course.sent, course.first, course, per_token);
    if (work.other_prefill) continue;
    const auto uncached = static_cast<double>(request.uncached_tokens());
    const double steps = std::ceil(uncached / budget) + (work.decoding > 0 ? 0.5 : 0);
    equations.push_back({{steps, uncached, work.decoding * steps, work.resident * steps, 1}, *request.ttft, 1});
  }
  return equations;
}

double usual_tpot(const ServedLog& log) {
  std::vector<double> all;
  for (const LoggedRequest& request : log.requests)
    if (request.tpot) all.push_back(*request.tpot);
  return metrics::compare::statistics::median(std::span(all));
}

}  // namespace

std::vector<EngineFit> fit_engines(const ServedLog& log, std::uint32_t prefill_budget) {
  const double tpot = usual_tpot(log);
  std::vector<Courses> courses;
  for (std::size_t r = 0; r < log.replicas.size(); ++r) courses.emplace_back(log, r, tpot);
  // How long a prompt token takes says in which steps prompts were computed; the first round takes all for one moment.
  double per_token = 0;
  std::optional<EngineFit> of_all;
  std::vector<std::vector<Equation>> equations(courses.size());
  for (int round = 0; round < 3; ++round) {
    std::vector<Equation> all;
    for (std::size_t r = 0; r < courses.size(); ++r) {
      equations[r] = equations_of(courses[r], prefill_budget, per_token);
      all.insert(all.end(), equations[r].begin(), equations[r].end());
    }
    of_all = fit(all);
    if (!of_all) {
      throw std::invalid_argument(
          "the log's ttft_s and tpot_s do not determine what a step of the engines takes; a log with more streams, of "
          "different lengths and several at a time, does");
    }
    per_token = of_all->prefill;
  }
  std::vector<EngineFit> fits;
  for (const auto& of_replica : equations) {
    const auto own = of_replica.size() >= least_streams ? fit(of_replica) : std::nullopt;
    fits.push_back(own.value_or(*of_all));
    fits.back().pooled = !own;
  }
  return fits;
}

std::uint64_t hit_tokens_of(const ServedLog& log) {
  // Where half of all numbers of blocks are even, eight different ones are all even by chance in one log of 256.
  constexpr std::size_t least_different = 8;
  std::uint64_t common = 0;
  std::set<std::uint64_t> different;
  for (const LoggedRequest& request : log.requests) {
    if (request.cached_tokens == 0) continue;
    common = std::gcd(common, request.cached_tokens);
    different.insert(request.cached_tokens);
  }
  const bool tells = different.size() >= least_different && common % engine::block_tokens == 0;
  return tells ? common : engine::block_tokens;
}

engine::EngineSettings settings_of(const EngineFit& fit, const EngineLimits& limits, bool prefix_caching,
                                   std::uint64_t hit_tokens) {
  const auto time = [](double seconds) { return engine::nanoseconds(std::llround(seconds * 1e9)); };
  engine::EngineSettings settings;
  settings.max_batch = limits.max_batch;
  settings.kv_tokens = limits.kv_tokens;
  settings.prefill_budget = limits.prefill_budget;
  settings.step_base = time(fit.base);
  settings.per_prefill_token = time(fit.prefill);
  settings.per_decode_sequence = time(fit.sequence);
  settings.per_kv_token = time(fit.kv);
  settings.prefix_caching = prefix_caching ? engine::PrefixCaching::blocks : engine::PrefixCaching::none;
  settings.hit_tokens = hit_tokens;
  return settings;
}

namespace {

using load::traces::LoggedLine;
using load::traces::LoggedLines;

struct Line {
  const LoggedLine* logged = nullptr;
  LoggedRequest request;  ///< `arrived` is in Unix seconds; `sent` and `ended` count from it.
  std::string replica;
};

/// A line that says no more than that a replica was there.
struct Seen {
  double at = 0;  ///< Unix seconds.
  std::string replica;
};

/// Returns a line that says what a replica did, or nothing.
std::optional<Line> read_line(const LoggedLine& logged, const LoggedLines& log) {
  const auto& sample = logged.sample;
  // A time is part of what the request took. One that is not was never measured.
  const auto within = [&](double time) {
    return time <= static_cast<double>(sample.e2e) ? std::optional(time) : std::nullopt;
  };
  const auto is_length = [](std::uint32_t tokens) { return tokens >= 1 && tokens <= load::traces::most_tokens; };
  const std::uint32_t prompt = sample.prompt_tokens, output = logged.replay.output_tokens;
  if (!sample.served || sample.replica == 0 || std::isnan(sample.e2e) || !is_length(prompt) || !is_length(output))
    return std::nullopt;
  Line line{&logged, {}, log.name(sample.replica)};
  LoggedRequest& request = line.request;
  request.arrived = logged.at();
  request.sent = within(1e-6 * static_cast<double>(sample.dispatched_us - sample.received_us)).value_or(0);
  request.ended = static_cast<double>(sample.e2e);
  request.ttft = within(static_cast<double>(sample.ttft));
  request.tpot = within(static_cast<double>(sample.tpot));
  request.prompt_tokens = prompt;
  request.output_tokens = output;
  request.cached_tokens = sample.cached_tokens < prompt ? sample.cached_tokens : 0;
  if (const auto most = logged.replay.max_tokens; most > 0 && most != metrics::compare::samples::unknown_count)
    request.max_tokens = most;
  return line;
}

/// Returns the lines of the pool that say what a replica did. Others say no more than that a replica was there.
std::vector<Line> lines_of(const LoggedLines& read, const ServedLogSettings& settings, std::vector<Seen>& others) {
  std::vector<Line> lines;
  std::set<std::string> pools, all_pools;
  for (const LoggedLine& logged : read.lines) {
    const std::string pool = read.name(logged.sample.pool);
    all_pools.insert(pool);
    if (!settings.pool.empty() && pool != settings.pool) continue;
    load::LogFacts refused;
    auto line = load::traces::prompt_of(logged, read, refused) ? read_line(logged, read) : std::nullopt;
    if (!line) {
      others.push_back({logged.at(), read.name(logged.sample.replica)});
      continue;
    }
    pools.insert(pool);
    lines.push_back(*std::move(line));
  }
  if (all_pools.empty() && read.damaged > 0) {
    throw std::invalid_argument("line " + std::to_string(read.first_damaged) +
                                ": expected a line of weir's request log, got \"" + read.damaged_text + "\"");
  }
  const auto names_of = [](const std::set<std::string>& some) {
    std::string names;
    for (const std::string& pool : some)
      names += (names.empty() ? "" : ", ") + (pool.empty() ? "(none)" : config::printable(pool));
    return names;
  };
  if (pools.size() > 1)
    throw std::invalid_argument("the log has requests of several pools (" + names_of(pools) +
                                "); choose one with --pool");
  if (!settings.pool.empty() && !all_pools.empty() && !all_pools.contains(settings.pool))
    throw std::invalid_argument("no request of the log is of the pool \"" + settings.pool + "\"; its pools are " +
                                names_of(all_pools));
  return lines;
}

/// Names the replicas: those of the lines, and of other lines of their time, failed requests for example.
void name_replicas(ServedLog& log, std::span<const Line> lines, std::span<const Seen> others,
                   const ServedLogSettings& settings) {
  std::set<std::string> names, before;
  for (const Line& line : lines) names.insert(line.replica);
  for (const Seen& seen : others)
    if (!seen.replica.empty()) (seen.at >= lines.front().request.arrived ? names : before).insert(seen.replica);
  log.replicas.assign(names.begin(), names.end());
  std::ranges::set_difference(before, names, std::back_inserter(log.before));
  if (settings.replicas == 0) return;
  if (settings.replicas < names.size()) {
    throw std::invalid_argument("the log has requests of " + counted(names.size(), "replica") + ", and not of " +
                                std::to_string(settings.replicas));
  }
  for (std::size_t n = 1; log.replicas.size() < settings.replicas; ++n)
    log.replicas.push_back("idle " + std::to_string(n));
}

}  // namespace

std::string ServedLog::damaged_lines() const {
  if (damaged == 0) return "";
  return counted(damaged, "line") + " cannot be read and " + (damaged == 1 ? "is" : "are") + " skipped, the first is " +
         "line " + std::to_string(first_damaged);
}

ServedLog read_served_log(std::istream& in, const ServedLogSettings& settings) {
  if (settings.most_requests != 0 && settings.most_requests < least_requests)
    throw std::invalid_argument("the last " + counted(settings.most_requests, "request") + " are too few; at least " +
                                std::to_string(least_requests) + " are needed, or 0 for all (--requests)");
  ServedLog log;
  std::string first_line;
  std::getline(in, first_line);
  if (is_compressed(first_line)) throw std::invalid_argument(std::string(compressed_file));
  const LoggedLines read = load::traces::read_logged_lines(in, std::move(first_line));
  log.damaged = read.damaged;
  log.first_damaged = read.first_damaged;
  std::vector<Seen> others;
  std::vector<Line> lines = lines_of(read, settings, others);
  log.left_out = others.size();
  std::ranges::stable_sort(lines, {}, [](const Line& line) { return line.request.arrived; });
  if (settings.most_requests != 0 && lines.size() > settings.most_requests) {
    const auto begin = lines.end() - static_cast<std::ptrdiff_t>(settings.most_requests);
    for (auto line = lines.begin(); line != begin; ++line)
      others.push_back({line->request.arrived, std::move(line->replica)});
    lines.erase(lines.begin(), begin);
  }
  if (lines.size() < least_requests) {
    throw std::invalid_argument(
        "the log has " + counted(lines.size(), "request") +
        " that a replica served, with prompt_tokens, output_tokens and e2e_s; at least " +
        std::to_string(least_requests) + " are needed. " +
        (log.left_out > 0 ? "Left out were " + std::to_string(log.left_out) + " that failed or tell too little"
                          : std::string("A longer log has more")) +
        (log.damaged > 0 ? "; " + log.damaged_lines() : ""));
  }
  if (lines.back().request.arrived <= lines.front().request.arrived) {
    throw std::invalid_argument("all requests of the log arrived at one moment");
  }

  name_replicas(log, lines, others, settings);
  std::map<std::string, std::size_t> places;
  for (std::size_t r = 0; r < log.replicas.size(); ++r) places.emplace(log.replicas[r], r);
  const double first = lines.front().request.arrived;
  std::vector<load::traces::LoggedPrompt> prompts;
  std::size_t streams = 0;
  for (Line& line : lines) {
    LoggedRequest& request = log.requests.emplace_back(line.request);
    request.arrived -= first;
    request.sent += request.arrived;
    request.ended += request.arrived;
    request.replica = places.at(line.replica);
    log.cached_tokens_told = log.cached_tokens_told || request.cached_tokens > 0;
    streams += request.ttft && request.tpot ? 1 : 0;
    prompts.push_back(*load::traces::prompt_of(*line.logged, read, log.facts));
  }
  if (streams < least_requests / 2) {
    throw std::invalid_argument("only " + std::to_string(streams) +
                                " lines have both ttft_s and tpot_s, from which an engine's constants are fitted; " +
                                "at least " + std::to_string(least_requests / 2) + " streams are needed");
  }
  log.trace = load::traces::entries_of(prompts, log.facts);
  std::set<std::uint64_t> conversations;
  for (const load::TraceEntry& entry : log.trace)
    if (entry.parent) conversations.insert(entry.conversation);
  log.conversations = conversations.size();
  return log;
}

}  // namespace weir::lab::forecast
