#include "lab/load/report.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lab/text.hpp"
#include "metrics/compare/statistics/quantile.hpp"

namespace weir::lab::load {

namespace json = boost::json;

namespace {

double seconds_between(Moment from, Moment to) { return metrics::seconds(to - from); }

void print_row(std::ostream& out, const char* name, const std::vector<float>& values) {
  const auto d = distribution(values);
  if (!d) {
    out << format("%-10s %9s\n", name, "-");
    return;
  }
  const auto ms = [](double seconds) { return format("%9.2f", seconds * 1e3); };
  out << format("%-10s", name) << ' ' << ms(d->mean) << ' ' << ms(d->p50) << ' ' << ms(d->p90) << ' ' << ms(d->p95)
      << ' ' << (d->p99 ? ms(*d->p99) : format("%9s", "-")) << format(" %9zu\n", d->count);
}

}  // namespace

json::value json_of(const std::optional<Distribution>& d) {
  if (!d) return nullptr;
  return json::object{{"count", d->count}, {"mean", d->mean},        {"p50", d->p50}, {"p90", d->p90},
                      {"p95", d->p95},     {"p99", json_of(d->p99)}, {"max", d->max}};
}

std::optional<Distribution> distribution(std::vector<float> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  Distribution d;
  d.count = values.size();
  d.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  const auto quantile = [&](double q) {
    return metrics::compare::statistics::quantile_of_sorted(std::span<const float>(values), q);
  };
  d.p50 = quantile(0.50);
  d.p90 = quantile(0.90);
  d.p95 = quantile(0.95);
  if (values.size() >= 100) d.p99 = quantile(0.99);
  d.max = static_cast<double>(values.back());
  return d;
}

void Tally::add(const Result& result) {
  if (!first_start_ || result.started < *first_start_) first_start_ = result.started;
  if (!last_end_ || result.ended > *last_end_) last_end_ = result.ended;
  if (result.due) late_.push_back(static_cast<float>(seconds_between(*result.due, result.started)));
  output_tokens_ += result.output_tokens();
  if (result.stream.first_token) prompt_tokens_ += result.prompt_tokens();
  if (result.was_ended()) {
    ++unfinished_;
    return;
  }
  if (!result.ok()) {
    ++failed_;
    ++errors_[result.outcome];
    if (example_.empty()) example_ = result.outcome + ": " + result.detail;
    return;
  }
  ++ok_;
  e2e_.push_back(static_cast<float>(seconds_between(result.begun(), result.ended)));
  if (result.stream.first_token) {
    ttft_.push_back(static_cast<float>(seconds_between(result.begun(), *result.stream.first_token)));
  }
  if (const auto tpot = result.stream.tpot()) tpot_.push_back(static_cast<float>(*tpot));
  itl_.insert(itl_.end(), result.stream.gaps.begin(), result.stream.gaps.end());
}

double Tally::elapsed() const { return first_start_ ? seconds_between(*first_start_, *last_end_) : 0; }

json::object Tally::json(double elapsed) const {
  const auto rate = [&](double n) { return elapsed > 0 ? json::value(n / elapsed) : json::value(nullptr); };
  json::object errors;
  for (const auto& [kind, count] : errors_) errors[kind] = count;
  return {{"requests_ok", ok_},
          {"requests_failed", failed_},
          {"requests_unfinished", unfinished_},
          {"errors", errors},
          {"requests_per_minute", rate(60.0 * static_cast<double>(ok_))},
          {"ttft_s", json_of(distribution(ttft_))},
          {"itl_s", json_of(distribution(itl_))},
          {"tpot_s", json_of(distribution(tpot_))},
          {"e2e_s", json_of(distribution(e2e_))},
          {"late_s", json_of(distribution(late_))},
          {"prompt_tokens", prompt_tokens_},
          {"output_tokens", output_tokens_},
          {"output_tokens_per_second", rate(static_cast<double>(output_tokens_))},
          {"total_tokens_per_second", rate(static_cast<double>(prompt_tokens_ + output_tokens_))}};
}

void Tally::print(std::ostream& out, double elapsed, const std::vector<float>* llmperf_itl) const {
  out << format("Requests   %llu ok, %llu failed", static_cast<unsigned long long>(ok_),
                static_cast<unsigned long long>(failed_));
  if (unfinished_ > 0) out << format(", %llu unfinished", static_cast<unsigned long long>(unfinished_));
  out << format(" in %.1f s", elapsed);
  if (elapsed > 0) out << format(": %.1f a minute", 60.0 * static_cast<double>(ok_) / elapsed);
  out << '\n';
  if (failed_ > 0) {
    out << "Errors    ";
    for (const auto& [kind, count] : errors_) out << ' ' << kind << ' ' << count;
    out << "\n           first: " << example_ << '\n';
  }
  out << format("\n%-10s %9s %9s %9s %9s %9s %9s\n", "ms", "mean", "p50", "p90", "p95", "p99", "values");
  print_row(out, "TTFT", ttft_);
  print_row(out, "ITL", itl_);
  print_row(out, "TPOT", tpot_);
  if (llmperf_itl) print_row(out, "LLMPerfITL", *llmperf_itl);
  print_row(out, "E2E", e2e_);
  if (!late_.empty()) print_row(out, "sent late", late_);
  if (elapsed <= 0) return;
  out << format("\nOutput     %.1f tokens/s (%llu tokens)\nTotal      %.1f tokens/s, prompts included\n",
                static_cast<double>(output_tokens_) / elapsed, static_cast<unsigned long long>(output_tokens_),
                static_cast<double>(output_tokens_ + prompt_tokens_) / elapsed);
}

void Report::add(const Result& result) {
  all.add(result);
  if (!result.replica.empty()) by_replica[result.replica].add(result);
}

json::object Report::json() const {
  // One replica's rates are taken over the time of all: a replica that idles makes few tokens a second.
  const double elapsed = all.elapsed();
  json::object root = all.json(elapsed);
  root["elapsed_s"] = elapsed;
  json::object replicas;
  for (const auto& [name, tally] : by_replica) replicas[name] = tally.json(elapsed);
  root["replicas"] = replicas;
  return root;
}

}  // namespace weir::lab::load
