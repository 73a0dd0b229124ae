#include "lab/load/report.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lab/text.hpp"
#include "metrics/compare/statistics/quantile.hpp"
#include "metrics/moment.hpp"

namespace weir::lab::load {

namespace {

double seconds_between(Moment from, Moment to) { return metrics::seconds(to - from); }

void print_row(std::ostream& out, const char* name, const std::vector<float>& values) {
  const auto d = distribution(values);
  if (!d) {
    out << fmt::format("{:<10} {:>9}\n", name, "-");
    return;
  }
  const auto ms = [](double seconds) { return fmt::format("{:9.2f}", seconds * 1e3); };
  out << fmt::format("{:<10}",
                     name) << ' ' << ms(d->mean) << ' ' << ms(d->p50) << ' ' << ms(d->p90) << ' ' << ms(d->p95)
      << ' ' << (d->p99 ? ms(*d->p99) : fmt::format("{:>9}", "-")) << fmt::format(" {:9}\n", d->count);
}

}  // namespace

void write(JsonWriter& json, const std::optional<Distribution>& d) {
  if (!d) return void(json.null());
  json.open('{').key("count").count(d->count).key("mean").exact(d->mean).key("p50").exact(d->p50);
  json.key("p90").exact(d->p90).key("p95").exact(d->p95).key("p99").exact(d->p99).key("max").exact(d->max).close('}');
}

std::optional<Distribution> distribution(std::vector<float> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  Distribution d;
  d.count = values.size();
  d.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  d.take([&](double q) { return metrics::compare::statistics::quantile_of_sorted(std::span<const float>(values), q); });
  d.max = static_cast<double>(values.back());
  return d;
}

void Tally::add(const Result& result) {
  if (!first_start_ || result.started < *first_start_) first_start_ = result.started;
  if (!last_end_ || result.ended > *last_end_) last_end_ = result.ended;
  if (result.due) late_.push_back(static_cast<float>(seconds_between(*result.due, result.started)));
  output_tokens_ += result.stream.output_tokens();
  if (result.stream.answer.first_token) prompt_tokens_ += result.prompt_tokens();
  if (!result.ok()) output_tokens_of_failed_ += result.stream.output_tokens();
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
  came_.prompt += result.prompt_tokens();
  came_.output += result.stream.output_tokens();
  asked_.prompt += result.prompt_target;
  asked_.output += result.output_target;
  e2e_.push_back(static_cast<float>(seconds_between(result.begun(), result.ended)));
  if (const auto first = result.stream.answer.first_token)
    ttft_.push_back(static_cast<float>(seconds_between(result.begun(), *first)));
  if (const auto tpot = result.stream.tpot()) tpot_.push_back(static_cast<float>(*tpot));
  const std::vector<float>& gaps = result.stream.gaps;
  itl_.insert(itl_.end(), gaps.begin(), gaps.end());
}

double Tally::elapsed() const { return first_start_ ? seconds_between(*first_start_, *last_end_) : 0; }

void Tally::write_members(JsonWriter& json, double elapsed) const {
  const auto rate = [&](double n) { return elapsed > 0 ? std::optional(n / elapsed) : std::nullopt; };
  json.key("requests_ok").count(ok_).key("requests_failed").count(failed_);
  json.key("requests_unfinished").count(unfinished_).key("errors").open('{');
  for (const auto& [kind, count] : errors_) json.key(std::string_view(kind)).count(count);
  json.close('}').key("requests_per_minute").exact(rate(60.0 * static_cast<double>(ok_)));
  for (const auto& [key, values] : {std::pair<std::string_view, const std::vector<float>&>("ttft_s", ttft_),
                                    {"itl_s", itl_},
                                    {"tpot_s", tpot_},
                                    {"e2e_s", e2e_},
                                    {"late_s", late_}}) {
    write(json.key(key), distribution(values));
  }
  json.key("prompt_tokens").count(prompt_tokens_).key("output_tokens").count(output_tokens_);
  json.key("output_tokens_of_failed").count(output_tokens_of_failed_);
  const auto mean = [this](std::uint64_t sum) {
    return ok_ > 0 ? std::optional(static_cast<double>(sum) / static_cast<double>(ok_)) : std::nullopt;
  };
  json.key("prompt_tokens_mean").exact(mean(came_.prompt)).key("prompt_tokens_asked_mean").exact(mean(asked_.prompt));
  json.key("output_tokens_mean").exact(mean(came_.output)).key("output_tokens_asked_mean").exact(mean(asked_.output));
  json.key("output_tokens_per_second").exact(rate(static_cast<double>(output_tokens_)));
  json.key("total_tokens_per_second").exact(rate(static_cast<double>(prompt_tokens_ + output_tokens_)));
}

void Tally::print(std::ostream& out, double elapsed, const std::vector<float>* llmperf_itl) const {
  out << fmt::format("Requests   {} ok, {} failed", ok_, failed_);
  if (unfinished_ > 0) out << fmt::format(", {} unfinished", unfinished_);
  out << fmt::format(" in {:.1f} s", elapsed);
  if (elapsed > 0) out << fmt::format(": {:.1f} a minute", 60.0 * static_cast<double>(ok_) / elapsed);
  out << '\n';
  if (failed_ > 0) {
    out << "Errors    ";
    for (const auto& [kind, count] : errors_) out << ' ' << kind << ' ' << count;
    out << "\n           first: " << example_ << '\n';
  }
  out << fmt::format("\n{:<10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "ms", "mean", "p50", "p90", "p95", "p99",
                     "values");
  print_row(out, "TTFT", ttft_);
  print_row(out, "ITL", itl_);
  print_row(out, "TPOT", tpot_);
  if (llmperf_itl) print_row(out, "LLMPerfITL", *llmperf_itl);
  print_row(out, "E2E", e2e_);
  if (!late_.empty()) print_row(out, "sent late", late_);
  if (ok_ > 0) {
    const auto mean = [this](std::uint64_t sum) { return static_cast<double>(sum) / static_cast<double>(ok_); };
    out << fmt::format("\nLengths    prompts of {:.1f} tokens, {:.1f} asked for; answers of {:.1f}, at most {:.1f} "
                       "asked for (means)\n", mean(came_.prompt), mean(asked_.prompt), mean(came_.output),
                       mean(asked_.output));
  }
  if (elapsed <= 0) return;
  const std::string of_failed =
      output_tokens_of_failed_ > 0
          ? fmt::format(", {} of them of requests that did not succeed", output_tokens_of_failed_)
          : "";
  out << (ok_ > 0 ? "" : "\n")
      << fmt::format("Output     {:.1f} tokens/s ({} tokens{})\nTotal      {:.1f} tokens/s, prompts included\n",
                     static_cast<double>(output_tokens_) / elapsed, output_tokens_, of_failed,
                     static_cast<double>(output_tokens_ + prompt_tokens_) / elapsed);
}

void Report::add(const Result& result) {
  all.add(result);
  if (!result.replica.empty()) by_replica[result.replica].add(result);
}

void Report::write_members(JsonWriter& json) const {
  // The rates of a replica are taken over the time of all: a replica that idles makes few tokens a second.
  const double elapsed = all.elapsed();
  all.write_members(json, elapsed);
  json.key("elapsed_s").exact(elapsed).key("replicas").open('{');
  for (const auto& [name, tally] : by_replica) {
    json.key(std::string_view(name)).open('{');
    tally.write_members(json, elapsed);
    json.close('}');
  }
  json.close('}');
}

}  // namespace weir::lab::load
