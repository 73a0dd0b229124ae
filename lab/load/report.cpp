#include "lab/load/report.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "lab/text.hpp"
#include "metrics/compare/statistics/intervals.hpp"
#include "metrics/moment.hpp"
#include "metrics/record/request_log.hpp"

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
  out << fmt::format("{:<10}", name) << ' ' << ms(d->mean) << ' ' << ms(d->p50) << ' ' << ms(d->p90) << ' '
      << ms(d->p95) << ' ' << (d->p99 ? ms(*d->p99) : fmt::format("{:>9}", "-")) << fmt::format(" {:9}\n", d->count);
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
    out << fmt::format(
        "\nLengths    prompts of {:.1f} tokens, {:.1f} asked for; answers of {:.1f}, at most {:.1f} "
        "asked for (means)\n",
        mean(came_.prompt), mean(asked_.prompt), mean(came_.output), mean(asked_.output));
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

std::optional<Cost> cost_of(const Prices& prices, const Bought& bought) {
  if (!prices.known() || bought.requests == 0 || bought.output_tokens == 0) return std::nullopt;
  const auto prompts = static_cast<double>(bought.prompt_tokens), outputs = static_cast<double>(bought.output_tokens);
  const double spent = prices.per_hour ? *prices.per_hour * bought.seconds / 3600
                                       : (prompts * prices.in.value_or(0) + outputs * prices.out.value_or(0)) / 1e6;
  return Cost{spent / static_cast<double>(bought.requests) * 1e3, spent / (prompts + outputs) * 1e6,
              spent / outputs * 1e6};
}

void print_cost(std::ostream& out, const Cost& cost) {
  out << fmt::format(
      "Cost       {:.4g} per 1000 requests, {:.4g} per million tokens, {:.4g} per million output "
      "tokens\n",
      cost.per_1000_requests, cost.per_million_tokens, cost.per_million_output_tokens);
}

void write_members(metrics::wire::JsonWriter& json, const Cost& cost) {
  json.key("cost_per_1000_requests").exact(cost.per_1000_requests);
  json.key("cost_per_million_tokens").exact(cost.per_million_tokens);
  json.key("cost_per_million_output_tokens").exact(cost.per_million_output_tokens);
}

namespace {

using metrics::Outcome;

Outcome outcome_of(const Result& result) {
  if (result.ok()) return result.stream.answer.first_token ? Outcome::ok : Outcome::ok_empty;
  if (result.was_ended()) return Outcome::client_abort;
  if (result.outcome == "timeout") return Outcome::timeout;
  if (result.outcome == "truncated") return Outcome::truncated;
  if (result.outcome == "reset") return Outcome::upstream_reset;
  const unsigned status = result.outcome == "in_band" ? result.stream.answer.in_band_status : result.status;
  if (status == 408 || status == 429 || status == 503) return Outcome::replica_refused;
  if (status >= 400 && status < 500) return Outcome::client_error;
  return Outcome::upstream_error;  // No connection, no event stream, or an error in the stream.
}

metrics::Phase phase_of(const Result& result) {
  if (!result.sent) return metrics::Phase::queue;
  return result.stream.answer.first_token ? metrics::Phase::decode : metrics::Phase::prefill;
}

}  // namespace

metrics::record::RequestRecord record_of(const Result& result, std::chrono::system_clock::time_point ended) {
  metrics::record::RequestRecord record;
  record.time = ended - std::chrono::duration_cast<std::chrono::system_clock::duration>(result.ended - result.begun());
  record.client_id = result.request_id;
  if (result.facts) record.facts = *result.facts;
  record.facts.stream = true;
  record.prompt_tokens_estimate = result.prompt_target;
  if (result.status != 0) record.status = result.status;
  record.outcome = outcome_of(result);
  if (record.outcome == Outcome::client_abort) record.phase = phase_of(result);
  record.attempt = 1;
  record.received = result.begun();
  record.wait = result.started - result.begun();
  record.sent = result.sent;
  record.head = result.head;
  record.ended = result.ended;
  if (result.sent) record.connect = *result.sent - result.started;
  record.replica = result.replica;
  // Behind weir there are other replicas, and other clients: how many requests this one had beside it is not known.
  if (result.replica.empty()) {
    record.in_flight_at_start = static_cast<std::uint32_t>(result.in_flight_at_start);
    record.in_flight_mean = result.in_flight_mean;
  }
  record.bytes_in = result.bytes_in;
  record.bytes_out = result.bytes_out;
  record.answer = result.stream.answer;
  return record;
}

RequestLines::RequestLines(std::string label) : label_(std::move(label)) {
  std::random_device random;
  run_ = (std::uint64_t{random()} << 32) | random();
}

std::string RequestLines::line(const Result& result) {
  const auto ended = std::chrono::system_clock::now() - std::chrono::duration_cast<std::chrono::system_clock::duration>(
                                                            std::chrono::steady_clock::now() - result.ended);
  metrics::record::RequestRecord record = record_of(result, ended);
  record.id = fmt::format("{:016x}{:016x}", run_, lines_++);
  record.config = label_;
  if (record.replica.empty()) record.replica = label_.empty() ? "direct" : label_;
  std::string line = metrics::record::log_line(record, "weir-lab");
  if (result.warm_up) line.insert(line.rfind('}'), ",\"warm_up\":true");
  return line;
}

}  // namespace weir::lab::load
