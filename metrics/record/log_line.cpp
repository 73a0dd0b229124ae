// The fields of the request log, in the order of docs/metrics.md.
#include <spdlog/fmt/chrono.h>

#include <charconv>
#include <chrono>

#include "metrics/record/json_line.hpp"
#include "metrics/record/request_log.hpp"

namespace weir::metrics::record {
namespace {

constexpr unsigned nanosecond_digits = 9;

/// Writes RFC 3339 in UTC with microseconds.
std::string timestamp(std::chrono::system_clock::time_point time) {
  const auto second = std::chrono::floor<std::chrono::seconds>(time);
  const auto part = std::chrono::floor<std::chrono::microseconds>(time - second);
  return fmt::format("{:%FT%T}.{:06}Z", second, part.count());
}

/// Writes [[bin,count],...].
std::string bins_of(const GapSketch& gaps) {
  std::string out = "[";
  char buffer[32];
  for (const auto& bin : gaps.bins()) {
    if (out.size() > 1) out += ',';
    char* end = buffer;
    *end++ = '[';
    end = std::to_chars(end, buffer + sizeof buffer, bin.index).ptr;
    *end++ = ',';
    end = std::to_chars(end, buffer + sizeof buffer, bin.count).ptr;
    *end++ = ']';
    out.append(buffer, end);
  }
  out += ']';
  return out;
}

/// Returns a value's word, or nothing for the enum's first word, which means unknown.
template <typename Enum>
std::string_view known_word(Enum value) {
  return static_cast<std::size_t>(value) == 0 ? std::string_view{} : name_of(value);
}

void append_mirrored(JsonLine& line, const Mirrored& mirrored) {
  line.known_text("shadow", mirrored.shadow).known_text("drop_reason", mirrored.drop_reason);
  line.text("pair_status", mirrored.joined ? "joined" : "pair_missing");
  line.boolean("same_text", mirrored.same_text).number("common_prefix_bytes", mirrored.common_prefix_bytes);
  line.boolean("same_tools", mirrored.same_tools);
  line.boolean("valid_tools", mirrored.valid_tools).boolean("primary_valid_tools", mirrored.primary_valid_tools);
}

}  // namespace

std::string log_line(const RequestRecord& record, const std::string& instance) {
  const wire::RequestFacts& facts = record.facts;
  const Answer& answer = record.answer;
  const Figures figures = figures_of(record);
  const bool placed = !record.replica.empty();
  JsonLine line;
  const auto time = [&](std::string_view key, std::optional<double> value) {
    line.decimal(key, value, nanosecond_digits);
  };

  line.number("v", 1).text("time", timestamp(record.time)).text("id", record.id);
  const Mirrored& mirrored = *record.mirrored;
  line.known_text("client_id", record.client_id)
      .known_text("pair", mirrored.pair)
      .known_text("group", facts.conversation != 0 ? fmt::format("{:016x}", facts.conversation) : std::string());
  line.known_text("key", record.key);
  line.text("instance", instance).text("role", name_of(record.role));
  line.known_text("pool", record.pool).known_text("replica", record.replica).known_text("config", record.config);

  line.text("api", name_of(facts.api)).known_text("model", facts.model).boolean("stream", facts.stream);
  line.number("status", record.status).text("outcome", name_of(record.outcome));
  line.known_text("phase", record.phase ? name_of(*record.phase) : std::string_view{});
  line.known_text("finish_reason", answer.finish_reason).number("attempt", record.attempt);

  line.number("max_tokens", facts.max_tokens).number("n", facts.n).boolean("greedy", facts.greedy);
  line.boolean("tools", facts.tools).number("images", facts.images);
  line.number("prompt_tokens", answer.prompt_tokens).number("cached_tokens", answer.cached_tokens);
  line.number("prompt_tokens_estimate", record.prompt_tokens_estimate);
  // The log adds up to weir_output_tokens_total.
  const bool counted = answer.only_counted();
  line.number("output_tokens", counted ? std::optional{answer.counted_tokens} : answer.output_tokens);
  line.known_text("tokens_source", counted ? counted_tokens_source : known_word(answer.token_source));
  line.number("events", answer.events).number("reads", answer.reads);

  time("queue_s", figures.queue);
  time("ttfb_s", figures.ttfb);
  time("ttfc_s", figures.ttfc);
  time("ttft_s", figures.ttft);
  time("ttft_client_s", figures.ttft_client);
  time("ttfot_s", figures.ttfot);
  time("tpot_s", figures.tpot);
  time("ntpot_s", figures.ntpot);
  time("e2e_s", figures.e2e);
  line.known_text("k_source", known_word(answer.tokens_per_event));
  line.raw("gap_bins", facts.stream ? bins_of(answer.gaps) : "null");
  line.known_text("complete", known_word(answer.complete));

  time("wait_s", seconds(record.wait));
  time("connect_s", record.attempt > 0 ? std::optional{seconds(record.connect)} : std::nullopt);
  time("paused_s", seconds(record.paused));
  time("overhead_max_s", record.overhead_max ? std::optional{seconds(*record.overhead_max)} : std::nullopt);
  line.number("in_flight_at_start", placed ? record.in_flight_at_start : std::nullopt);
  line.decimal("in_flight_mean", placed ? record.in_flight_mean : std::nullopt, 3);

  const bool known_api = facts.api != Api::other;
  line.number("prompt_chars", known_api && facts.whole_json ? std::optional{facts.text.chars()} : std::nullopt);
  const bool known_output = generates(facts.api) && !answer.unparsed;
  line.number("output_chars", known_output ? std::optional{answer.output_chars} : std::nullopt);
  line.number("bytes_in", record.bytes_in).number("bytes_out", record.bytes_out);

  time("engine_queue_s", answer.engine->queue);
  time("engine_prefill_s", answer.engine->prefill);
  time("engine_ttft_s", answer.engine->ttft);
  time("engine_decode_s", answer.engine->decode);
  time("engine_total_s", answer.engine->total);
  time("engine_time_per_token_s", answer.engine->time_per_token);
  line.number("engine_draft_tokens", answer.engine->draft_tokens);
  line.number("engine_draft_accepted_tokens", answer.engine->draft_accepted_tokens);
  line.number("coalesced_reads", answer.coalesced_reads).boolean("suspect", record.suspect);
  line.number("turn", facts.user_messages > 0 ? std::optional<std::uint64_t>{facts.user_messages} : std::nullopt);
  time("lasted_s", record.ended && *record.ended >= record.received
                       ? std::optional{seconds(*record.ended - record.received)}
                       : std::nullopt);
  line.boolean("served", served(record));
  if (record.role == Role::shadow) append_mirrored(line, mirrored);
  return line.take();
}

}  // namespace weir::metrics::record
