// Writes a line of the request log: the fields of log_fields(), in their order.
#include "metrics/record/log_line.hpp"

#include <array>
#include <charconv>
#include <chrono>
#include <iterator>

#include "metrics/record/request_log.hpp"
#include "metrics/text.hpp"
#include "metrics/vocabulary.hpp"
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
  line.key("valid_tools").boolean(mirrored.valid_tools);
  line.key("primary_valid_tools").boolean(mirrored.primary_valid_tools);
}

template <std::size_t n>
void append_time(JsonWriter& line, const char (&key)[n], std::optional<double> value) {
  line.key(key).fixed(value, nanosecond_digits);
}

void append_names(JsonWriter& line, const RequestRecord& record, const std::string& instance) {
  const std::uint64_t conversation = record.facts.conversation;
  line.key("v").count(1).key("time");
  line.text(timestamp(std::chrono::floor<std::chrono::microseconds>(record.time), 6)).key("id").text(record.id);
  line.key("client_id").known_text(record.client_id).key("pair").known_text(record.mirrored->pair);
  line.key("group").known_text(conversation != 0 ? fmt::format("{:016x}", conversation) : std::string());
  line.key("key").known_text(record.key);
  line.key("instance").text(instance).key("role").text(name_of(record.role));
  line.key("pool").known_text(record.pool).key("replica").known_text(record.replica);
  line.key("config").known_text(record.config);
}

/// Appends what was asked for, and what came.
void append_course(JsonWriter& line, const RequestRecord& record) {
  const wire::RequestFacts& facts = record.facts;
  const Answer& answer = record.answer;
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
}

void append_figures(JsonWriter& line, const RequestRecord& record) {
  const Figures figures = figures_of(record);
  append_time(line, "queue_s", figures.queue);
  append_time(line, "ttfb_s", figures.ttfb);
  append_time(line, "ttfc_s", figures.ttfc);
  append_time(line, "ttft_s", figures.ttft);
  append_time(line, "ttft_client_s", figures.ttft_client);
  append_time(line, "ttfot_s", figures.ttfot);
  append_time(line, "tpot_s", figures.tpot);
  append_time(line, "ntpot_s", figures.ntpot);
  append_time(line, "e2e_s", figures.e2e);
  append_time(line, "predicted_ttft_s", record.predicted_ttft);
  append_time(line, "predicted_e2e_s", record.predicted_e2e);
  line.key("k_source").known_text(known_word(record.answer.tokens_per_event));
  line.key("gap_bins").raw(record.facts.stream ? bins_of(record.answer.gaps) : "null");
  line.key("complete").known_text(known_word(record.answer.complete));

  append_time(line, "wait_s", seconds(record.wait));
  append_time(line, "connect_s", record.attempt > 0 ? std::optional{seconds(record.connect)} : std::nullopt);
  append_time(line, "paused_s", seconds(record.paused));
  append_time(line, "overhead_max_s",
              record.overhead_max ? std::optional{seconds(*record.overhead_max)} : std::nullopt);
}

void append_engine(JsonWriter& line, const wire::EngineFigures& engine) {
  append_time(line, "engine_queue_s", engine.queue);
  append_time(line, "engine_prefill_s", engine.prefill);
  append_time(line, "engine_ttft_s", engine.ttft);
  append_time(line, "engine_decode_s", engine.decode);
  append_time(line, "engine_total_s", engine.total);
  append_time(line, "engine_time_per_token_s", engine.time_per_token);
  line.key("engine_draft_tokens").count(engine.draft_tokens);
  line.key("engine_draft_accepted_tokens").count(engine.draft_accepted_tokens);
}

}  // namespace

std::string log_line(const RequestRecord& record, const std::string& instance) {
  const wire::RequestFacts& facts = record.facts;
  const Answer& answer = record.answer;
  const bool placed = !record.replica.empty();
  JsonWriter line(usual_size);
  line.open('{');
  append_names(line, record, instance);
  append_course(line, record);
  append_figures(line, record);
  line.key("in_flight_at_start").count(placed ? record.in_flight_at_start : std::nullopt);
  line.key("in_flight_mean").fixed(placed ? record.in_flight_mean : std::nullopt, 3);

  const bool known_api = facts.api != Api::other;
  line.key("prompt_chars").count(known_api && facts.whole_json ? std::optional{facts.text.chars()} : std::nullopt);
  const bool known_output = generates(facts.api) && !answer.unparsed;
  line.key("output_chars").count(known_output ? std::optional{answer.output_chars} : std::nullopt);
  line.key("bytes_in").count(record.bytes_in).key("bytes_out").count(record.bytes_out);

  append_engine(line, *answer.engine);
  line.key("coalesced_reads").count(answer.coalesced_reads).key("suspect").boolean(record.suspect);
  line.key("turn").count(facts.user_messages > 0 ? std::optional<std::uint64_t>{facts.user_messages} : std::nullopt);
  const bool lasted = record.ended && *record.ended >= record.received;
  append_time(line, "lasted_s", lasted ? std::optional{seconds(*record.ended - record.received)} : std::nullopt);
  line.key("served").boolean(served(record));
  if (record.role == Role::shadow) append_mirrored(line, *record.mirrored);
  line.close('}');
  return line.written();
}

namespace {

constexpr std::string_view shadows_alone = "no comparison was made";
constexpr std::string_view not_told = "the engine does not tell it";
constexpr std::string_view no_stream = "not a stream, or no such event came";
constexpr std::array<std::string_view, 3> sources{"usage", "events", counted_tokens_source};
constexpr std::array<std::string_view, 2> pair_statuses{"joined", "pair_missing"};
constexpr auto known_completeness = std::span(completeness_names).subspan(1);
constexpr auto known_per_event = std::span(tokens_per_event_names).subspan(1);

}  // namespace

std::span<const LogField> log_fields() {
  using enum JsonType;
  static constexpr LogField fields[] = {
      {"v", whole, "", "Version of this format: 1."},
      {"time", text, "RFC 3339, UTC", "Wall clock at t0."},
      {"id", text, "", "weir's own id of the request, 128 random bits in hex. The answer's header `x-weir-id` has it."},
      {"client_id", text, "", "The client's `x-request-id`, if it is 1 to 128 of `[A-Za-z0-9._-]`.", "none came"},
      {"pair", text, "", "The `id` of the primary's line.", "not a shadow's line"},
      {"group", text, "",
       "The same for all turns of a conversation: a hash with a key that each start of weir draws (with a "
       "`[[rollout]]`, the key is kept).",
       "no conversation is known"},
      {"key", text, "", "Name of the client's key (`server.api_keys`).", "no right key came, or clients need none"},
      {"instance", text, "", "Name of this weir (`log.instance`)."},
      {"role", text, "", "Whether a client got the answer, or a shadow gave it.", "", role_names},
      {"pool", text, "", "The pool of the request.", "none was chosen"},
      {"replica", text, "", "The replica whose answer or failure the client was told.", "none was chosen"},
      {"config", text, "", "The configuration of that replica.", "none was chosen"},
      {"api", text, "", "The API that was asked, by path and shape.", "", api_names},
      {"model", text, "", "The model as the client wrote it, cut at 128 bytes.", "the request names none"},
      {"stream", flag, "", "A stream was asked for, or came."},
      {"status", whole, "", "HTTP status that the client got.", "no head was sent"},
      {"outcome", text, "", "How the request ended: [the outcomes](metrics.md#outcomes).", "", outcome_names},
      {"phase", text, "", "Where the request was when its client left, or when `limits.drain` cut it.", "any other end",
       phase_names},
      {"finish_reason", text, "", "The engine's word, cut at 32 bytes.", "no word came"},
      {"attempt", whole, "", "Number of the last attempt: 1 without a retry, 0 if none was made."},
      {"replica_status", whole, "", "HTTP status of the last head that a replica sent, in any attempt.", "none came"},
      {"max_tokens", whole, "tokens", "The most output tokens that the client asked for.", "the client set none"},
      {"n", whole, "", "Choices that were asked for, times the prompts of a list."},
      {"greedy", flag, "", "The request asks for `temperature` 0, or for no sampling."},
      {"tools", flag, "", "The request names tools."},
      {"images", whole, "", "Images in the request."},
      {"prompt_tokens", whole, "tokens", "Prompt tokens as the engine counts, cached ones included.", not_told},
      {"cached_tokens", whole, "tokens", "Those of them that the engine took from its prefix cache.", not_told},
      {"prompt_tokens_estimate", whole, "tokens", "What weir had estimated when it chose the replica.", "no estimate"},
      {"prefix_predicted", whole, "tokens",
       "Tokens of the prompt that the replica was believed to hold in its prefix cache.", "nothing was known"},
      {"prefix_best", whole, "tokens", "The same of the replica that held most.", "nothing was known"},
      {"prefixes", list, "[[position, hash], ...]",
       "With `log.prefixes`: up to 32 places in the prompt, each with a hash of all before it. Two prompts with a pair "
       "in common begin alike up to there, while one weir runs.",
       "off, or nothing is known"},
      {"output_tokens", whole, "tokens",
       "Output tokens as the engine counts, over all choices; where it tells none, what weir counted.", "nothing came"},
      {"tokens_source", text, "",
       "Where `output_tokens` comes from. `counted`: by weir, an event of unknown size as one token; no figure per "
       "token follows from it.",
       "there are none", sources},
      {"reasoning_tokens", whole, "tokens", "Output tokens that the engine counts as reasoning.", not_told},
      {"events", whole, "", "Events of the stream, `[DONE]` included."},
      {"reads", whole, "", "Reads from the replica that brought body."},
      {"queue_s", number, "s", "tS - t0: waiting and connecting.", "nothing was sent"},
      {"ttfb_s", number, "s", "tH - tS.", "no head came"},
      {"ttfc_s", number, "s", "tC - tS.", no_stream},
      {"ttft_s", number, "s", "t1 - tS: time to first token.", no_stream},
      {"ttft_client_s", number, "s", "t1 - t0: what the user waited for it.", no_stream},
      {"ttfot_s", number, "s", "tO - tS: the same to the first token that is no reasoning.", no_stream},
      {"tpot_s", number, "s", "(tL - t1) / (n - n1): time per output token.", "unknown counts, or `n` > 1"},
      {"ntpot_s", number, "s", "(tL - t0) / n: normalized time per output token.", "unknown counts"},
      {"e2e_s", number, "s", "tL - t0 of a stream, else tE - t0.", "no answer"},
      {"predicted_ttft_s", number, "s", "What the balancer predicted from its choice to the first token.",
       "nothing was predicted"},
      {"predicted_e2e_s", number, "s", "The same to the last token.", "nothing was predicted"},
      {"k_source", text, "", "Where the tokens of an event are known from: the wire, or settled at the stream's end.",
       "unknown", known_per_event},
      {"gap_bins", list, "[[bin, count], ...]",
       "Gaps between token events. Bin 0: below 1 us. Bin b, with b - 1 = 64 o + i, begins at 2^o (1 + i / 64) us.",
       "not a stream"},
      {"complete", text, "", "What showed that the answer was complete.", "nothing did", known_completeness},
      {"wait_s", number, "s", "Time in weir's queue, of all attempts together."},
      {"connect_s", number, "s", "Time that connecting took, of all attempts together.", "no attempt"},
      {"paused_s", number, "s", "Time in which weir had stopped reading for a slow client."},
      {"overhead_max_s", number, "s", "The longest time of any bytes from the kernel to the client's connection.",
       "nothing was written"},
      {"in_flight_at_start", whole, "requests", "Requests on the replica when this one came.", "no replica"},
      {"in_flight_mean", number, "requests", "Mean number on the replica while it ran, itself counted.", "no replica"},
      {"prompt_chars", whole, "code points", "Text of the prompt.", "`api` is `other`, or the body is no JSON object"},
      {"output_chars", whole, "code points", "Text of the answer.", "part of it could not be read"},
      {"bytes_in", whole, "bytes", "The request's body."},
      {"bytes_out", whole, "bytes", "The replica's body as sent to the client; 0 for weir's own answers."},
      {"engine_queue_s", number, "s", "The engine's own time of waiting.", not_told},
      {"engine_prefill_s", number, "s", "The engine's own time of prefill.", not_told},
      {"engine_ttft_s", number, "s", "The engine's own time to first token.", not_told},
      {"engine_decode_s", number, "s", "The engine's own time of decoding.", not_told},
      {"engine_total_s", number, "s", "The engine's own time of the request.", not_told},
      {"engine_time_per_token_s", number, "s",
       "The engine's own figure: TGI's is (prefill + decode) / n, vLLM's its "
       "mean ITL.",
       not_told},
      {"engine_draft_tokens", whole, "tokens", "Tokens drafted in speculative decoding.", not_told},
      {"engine_draft_accepted_tokens", whole, "tokens", "Those of them that were accepted.", not_told},
      {"coalesced_reads", whole, "",
       "Reads with several token events of one choice. Near `reads`, something between buffers: distrust ITL."},
      {"suspect", flag, "", "Replicas broke off twice while they worked on this request, so weir tries no third time."},
      {"turn", whole, "", "Messages whose role is `user`: 1 is a conversation's first turn.",
       "the engine keeps earlier turns, or no such message"},
      {"lasted_s", number, "s", "From t0 to the end for the client, whatever the outcome.", "a copy that was not sent"},
      {"served", flag, "",
       "The replica did its whole work, so that the times count: `ok`, `ok_empty`, and `client_abort` after the end."},
      {"shadow", text, "", "Name of the `[[shadow]]`.", "unknown", {}, true},
      {"drop_reason",
       text,
       "",
       "Why the copy was not sent: as in `weir_shadow_requests_total`.",
       "it was sent",
       {},
       true},
      {"pair_status", text, "", "Whether the primary's record was there to compare with.", "", pair_statuses, true},
      {"same_text", flag, "", "Both answers have the same text.", shadows_alone, {}, true},
      {"common_prefix_bytes",
       whole,
       "bytes",
       "Bytes in which the two texts begin alike, at least.",
       shadows_alone,
       {},
       true},
      {"same_tools", flag, "", "Both answers call the same tools with the same arguments.", shadows_alone, {}, true},
      {"valid_tools",
       flag,
       "",
       "The answer calls tools, and the arguments of each call are JSON.",
       "neither answer calls any",
       {},
       true},
      {"primary_valid_tools", flag, "", "The same of the primary's answer.", "neither answer calls any", {}, true},
  };
  return fields;
}

}  // namespace weir::metrics::record
