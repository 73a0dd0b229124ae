// A finished stream whose every figure is known, for tests to change.
#pragma once

#include <boost/json/value_to.hpp>
#include <string>

#include "metrics/record/request_record.hpp"

namespace weir::metrics::record {

inline std::string text(const boost::json::object& line, const char* key) {
  return boost::json::value_to<std::string>(line.at(key));
}

/// Returns the moment `ms` milliseconds after t0.
inline Moment at(double ms) {
  return Moment{} + std::chrono::hours(1) +
         std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double, std::milli>(ms));
}

/// Its moments are t0 0, tS 2, tH 5, tC = t1 = tO 102, tL 1102, tE 1103 (ms); n is 101, in 101 events of one token
/// each.
inline RequestRecord streamed() {
  using namespace std::chrono;
  RequestRecord record;
  record.time = sys_days{2026y / November / 21} + 7h + 5s + 123456us;
  record.id = "00112233445566778899aabbccddeeff";
  record.client_id = "req-7.a_B";
  record.key = "alice";
  record.pool = "chat";
  record.replica = "gpu0";
  record.config = "vllm-fp16";
  record.facts.api = Api::openai_chat;
  record.facts.model = "qwen2.5-7b";
  record.facts.stream = true;
  record.facts.max_tokens = 256;
  record.facts.whole_json = true;
  record.facts.text.code_points[0] = 2100;
  record.prompt_tokens_estimate = 531;
  record.prefix_predicted = 512;
  record.prefix_best = 528;
  record.status = 200;
  record.outcome = Outcome::ok;
  record.attempt = 1;
  record.received = at(0);
  record.sent = at(2);
  record.head = at(5);
  record.ended = at(1103);
  record.wait = milliseconds(1);
  record.connect = microseconds(700);
  record.overhead_max = microseconds(40);
  record.in_flight_at_start = 7;
  record.in_flight_mean = 7.4;
  record.bytes_in = 2400;
  record.bytes_out = 33000;

  Answer& answer = record.answer;
  answer.first_choice = answer.first_token = answer.first_output = at(102);
  answer.last_choice = at(1102);
  answer.end = at(1103);
  answer.events = 104;
  answer.reads = 103;
  answer.token_events = 101;
  answer.token_events_in_different_reads = true;
  answer.prompt_tokens = 550;
  answer.cached_tokens = 50;
  answer.output_tokens = 101;
  answer.reasoning_tokens = 40;
  answer.counted_tokens = 101;
  answer.token_source = TokenSource::usage;
  answer.tokens_per_event = TokensPerEvent::settled;
  answer.gaps.add(milliseconds(10), 99);
  answer.gaps.add(milliseconds(30), 1);
  answer.finish_reason = "stop";
  answer.complete = Completeness::marker;
  answer.output_chars = 620;
  return record;
}

/// Returns the same as one JSON document.
inline RequestRecord unstreamed() {
  RequestRecord record = streamed();
  record.facts.stream = false;
  Answer answer;
  answer.end = record.answer.end;
  answer.reads = 1;
  answer.prompt_tokens = record.answer.prompt_tokens;
  answer.cached_tokens = record.answer.cached_tokens;
  answer.output_tokens = record.answer.output_tokens;
  answer.token_source = TokenSource::usage;
  answer.finish_reason = "stop";
  answer.complete = Completeness::framing;
  answer.output_chars = 620;
  record.answer = answer;
  return record;
}

}  // namespace weir::metrics::record
