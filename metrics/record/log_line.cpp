// Writes a line of the request log: the fields of log_fields.hpp, in their order.
#include <charconv>
#include <chrono>
#include <iterator>

#include "metrics/record/request_log.hpp"
#include "metrics/text.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::metrics::record {
namespace {

using wire::JsonWriter;

constexpr unsigned nanosecond_digits = 9;
constexpr std::size_t usual_size = 1536;

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

/// Writes [[position,key],...].
std::string marks_of(const std::vector<wire::PrefixMark>& prefixes) {
  std::string out;
  for (const auto& mark : prefixes) fmt::format_to(std::back_inserter(out), ",[{},{}]", mark.position, mark.key);
  out.front() = '[';
  return out += ']';
}

/// Returns a value's word, or nothing for the enum's first word, which means unknown.
template <typename Enum>
std::string_view known_word(Enum value) {
  return static_cast<std::size_t>(value) == 0 ? std::string_view{} : name_of(value);
}

void append_mirrored(JsonWriter& line, const Mirrored& mirrored) {
  line.key("shadow").known_text(mirrored.shadow).key("drop_reason").known_text(mirrored.drop_reason);
  line.key("pair_status").text(mirrored.joined ? "joined" : "pair_missing");
  line.key("same_text").boolean(mirrored.same_text).key("common_prefix_bytes").count(mirrored.common_prefix_bytes);
  line.key("same_tools").boolean(mirrored.same_tools);
  line.key("valid_tools")
      .boolean(mirrored.valid_tools)
      .key("primary_valid_tools")
      .boolean(mirrored.primary_valid_tools);
}

}  // namespace

std::string log_line(const RequestRecord& record, const std::string& instance) {
  const wire::RequestFacts& facts = record.facts;
  const Answer& answer = record.answer;
  const Figures figures = figures_of(record);
  const bool placed = !record.replica.empty();
  JsonWriter line(usual_size);
  const auto time = [&line](const auto& key, std::optional<double> value) {
    line.key(key).fixed(value, nanosecond_digits);
  };

  line.open('{');
  line.key("v").count(1).key("time").text(timestamp(std::chrono::floor<std::chrono::microseconds>(record.time), 6)).key("id").text(record.id);
  const Mirrored& mirrored = *record.mirrored;
  line.key("client_id").known_text(record.client_id).key("pair").known_text(mirrored.pair);
  line.key("group").known_text(facts.conversation != 0 ? fmt::format("{:016x}", facts.conversation) : std::string());
  line.key("key").known_text(record.key);
  line.key("instance").text(instance).key("role").text(name_of(record.role));
  line.key("pool").known_text(record.pool).key("replica").known_text(record.replica);
  line.key("config").known_text(record.config);

  line.key("api").text(name_of(facts.api)).key("model").known_text(facts.model).key("stream").boolean(facts.stream);
  line.key("status").count(record.status).key("outcome").text(name_of(record.outcome));
  line.key("phase").known_text(record.phase ? name_of(*record.phase) : std::string_view{});
  line.key("finish_reason").known_text(answer.finish_reason).key("attempt").count(record.attempt);
  line.key("replica_status").count(record.replica_status);

  line.key("max_tokens").count(facts.max_tokens).key("n").count(facts.n).key("greedy").boolean(facts.greedy);
  line.key("tools").boolean(facts.tools).key("images").count(facts.images);
  line.key("prompt_tokens").count(answer.prompt_tokens).key("cached_tokens").count(answer.cached_tokens);
  line.key("prompt_tokens_estimate").count(record.prompt_tokens_estimate);
  line.key("prefix_predicted").count(record.prefix_predicted).key("prefix_best").count(record.prefix_best);
  line.key("prefixes").raw(record.prefixes->empty() ? "null" : marks_of(*record.prefixes));
  // The log adds up to weir_output_tokens_total.
  const bool counted = answer.only_counted();
  line.key("output_tokens").count(counted ? std::optional{answer.counted_tokens} : answer.output_tokens);
  line.key("tokens_source").known_text(counted ? counted_tokens_source : known_word(answer.token_source));
  line.key("reasoning_tokens").count(answer.reasoning_tokens);
  line.key("events").count(answer.events).key("reads").count(answer.reads);

  time("queue_s", figures.queue);
  time("ttfb_s", figures.ttfb);
  time("ttfc_s", figures.ttfc);
  time("ttft_s", figures.ttft);
  time("ttft_client_s", figures.ttft_client);
  time("ttfot_s", figures.ttfot);
  time("tpot_s", figures.tpot);
  time("ntpot_s", figures.ntpot);
  time("e2e_s", figures.e2e);
  time("predicted_ttft_s", record.predicted_ttft);
  time("predicted_e2e_s", record.predicted_e2e);
  line.key("k_source").known_text(known_word(answer.tokens_per_event));
  line.key("gap_bins").raw(facts.stream ? bins_of(answer.gaps) : "null");
  line.key("complete").known_text(known_word(answer.complete));

  time("wait_s", seconds(record.wait));
  time("connect_s", record.attempt > 0 ? std::optional{seconds(record.connect)} : std::nullopt);
  time("paused_s", seconds(record.paused));
  time("overhead_max_s", record.overhead_max ? std::optional{seconds(*record.overhead_max)} : std::nullopt);
  line.key("in_flight_at_start").count(placed ? record.in_flight_at_start : std::nullopt);
  line.key("in_flight_mean").fixed(placed ? record.in_flight_mean : std::nullopt, 3);

  const bool known_api = facts.api != Api::other;
  line.key("prompt_chars").count(known_api && facts.whole_json ? std::optional{facts.text.chars()} : std::nullopt);
  const bool known_output = generates(facts.api) && !answer.unparsed;
  line.key("output_chars").count(known_output ? std::optional{answer.output_chars} : std::nullopt);
  line.key("bytes_in").count(record.bytes_in).key("bytes_out").count(record.bytes_out);

  time("engine_queue_s", answer.engine->queue);
  time("engine_prefill_s", answer.engine->prefill);
  time("engine_ttft_s", answer.engine->ttft);
  time("engine_decode_s", answer.engine->decode);
  time("engine_total_s", answer.engine->total);
  time("engine_time_per_token_s", answer.engine->time_per_token);
  line.key("engine_draft_tokens").count(answer.engine->draft_tokens);
  line.key("engine_draft_accepted_tokens").count(answer.engine->draft_accepted_tokens);
  line.key("coalesced_reads").count(answer.coalesced_reads).key("suspect").boolean(record.suspect);
  line.key("turn").count(facts.user_messages > 0 ? std::optional<std::uint64_t>{facts.user_messages} : std::nullopt);
  time("lasted_s", record.ended && *record.ended >= record.received
                       ? std::optional{seconds(*record.ended - record.received)}
                       : std::nullopt);
  line.key("served").boolean(served(record));
  if (record.role == Role::shadow) append_mirrored(line, mirrored);
  line.close('}');
  return std::move(line).written();
}

}  // namespace weir::metrics::record
