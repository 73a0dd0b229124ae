#include "lab/load/request_lines.hpp"

#include <random>

#include "lab/text.hpp"
#include "metrics/record/request_log.hpp"

namespace weir::lab::load {
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
  record.id =
      fmt::format("{:016x}{:016x}", run_, lines_++);
  record.config = label_;
  if (record.replica.empty()) record.replica = label_.empty() ? "direct" : label_;
  std::string line = metrics::record::log_line(record, "weir-lab");
  if (result.warm_up) line.insert(line.rfind('}'), ",\"warm_up\":true");
  return line;
}

}  // namespace weir::lab::load
