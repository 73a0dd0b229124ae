#include "tests/unit/metrics/measure/stream_meter_replay.hpp"

#include <cmath>

namespace weir::metrics::measure {

namespace {

/// An object whose members are set only where they say something.
class Members {
 public:
  void number(std::string_view name, std::uint64_t n) {
    if (n > 0) object_[name] = n;
  }
  void number(std::string_view name, const std::optional<std::uint64_t>& n) {
    if (n) object_[name] = *n;
  }
  void moment(std::string_view name, const std::optional<Moment>& at) {
    if (at) object_[name] = milliseconds(*at);
  }
  void seconds(std::string_view name, const std::optional<double>& s) {
    if (s) object_[name] = std::llround(*s * 1e9);
  }
  void flag(std::string_view name, bool on) {
    if (on) object_[name] = true;
  }
  void word(std::string_view name, std::string_view word) {
    if (!word.empty()) object_[name] = word;
  }
  void gaps(std::string_view name, const series::Histogram& of) {
    if (count(of) > 0) object_[name] = {count(of), of.sum()};
  }
  template <class Value>
  void any(std::string_view name, Value&& value) {
    if (!value.empty()) object_[name] = std::forward<Value>(value);
  }
  boost::json::object take() { return std::move(object_); }

  static std::int64_t milliseconds(Moment at) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(at - start).count();
  }

 private:
  boost::json::object object_;
};

boost::json::object figures(const wire::EngineFigures& said) {
  Members to;
  to.seconds("queue", said.queue);
  to.seconds("prefill", said.prefill);
  to.seconds("ttft", said.ttft);
  to.seconds("decode", said.decode);
  to.seconds("total", said.total);
  to.seconds("time_per_token", said.time_per_token);
  to.number("draft_tokens", said.draft_tokens);
  to.number("draft_accepted_tokens", said.draft_accepted_tokens);
  to.number("prompt_tokens", said.prompt_tokens);
  to.number("output_tokens", said.output_tokens);
  return to.take();
}

boost::json::array choices(const record::Answer& of) {
  boost::json::array all;
  for (const record::ChoiceTimes& one : of.choices) {
    all.push_back(
        {Members::milliseconds(one.first_token), Members::milliseconds(one.last), one.first_tokens, one.tokens});
  }
  return all;
}

boost::json::object unparsed(const series::ReplicaShard& shard) {
  Members to;
  for (std::size_t i = 0; i < shard.unparsed.size(); ++i) {
    to.number(series::unparsed_names[i], shard.unparsed[i].value());
  }
  return to.take();
}

/// The first token is observed once, from both origins.
bool first_token_observed(const Replay& replay) {
  const auto& at = replay.answer().first_token;
  const series::ReplicaShard& shard = replay.shard;
  const auto since = [&](Moment origin) { return at ? static_cast<std::uint64_t>((*at - origin).count()) : 0; };
  return count(shard.time_to_first_token) == (at ? 1U : 0U) &&
         count(shard.client_time_to_first_token) == (at ? 1U : 0U) &&
         shard.time_to_first_token.sum() == since(ms(-60)) && shard.client_time_to_first_token.sum() == since(ms(-100));
}

}  // namespace

boost::json::object seen(const Replay& replay) {
  const record::Answer& a = replay.answer();
  Members to;
  to.number("events", a.events);
  to.moment("first_choice", a.first_choice);
  to.moment("first_token", a.first_token);
  to.moment("first_output", a.first_output);
  to.moment("last_choice", a.last_choice);
  to.number("token_events", a.token_events);
  to.number("chars", a.output_chars);
  to.number("prompt_tokens", a.prompt_tokens);
  to.number("cached_tokens", a.cached_tokens);
  to.number("output_tokens", a.output_tokens);
  to.word("source", a.token_source == TokenSource::none ? "" : name_of(a.token_source));
  to.number("first_output_tokens", a.first_output_tokens);
  if (a.counted_tokens != a.output_tokens.value_or(a.token_events)) {
    to.number("counted_tokens", std::optional(a.counted_tokens));
  }
  to.word("per_event", a.tokens_per_event == TokensPerEvent::unknown ? "" : name_of(a.tokens_per_event));
  to.gaps("chunk_gaps", replay.shard.inter_chunk_latency);
  to.gaps("token_gaps", replay.shard.inter_token_latency);
  to.any("choices", choices(a));
  to.word("finish_reason", a.finish_reason);
  to.word("complete", a.complete == Completeness::none ? "" : name_of(a.complete));
  to.flag("error", a.in_band_error);
  to.flag("refused", replay.meter.refused());
  to.flag("overloaded", replay.meter.overloaded());
  to.any("unparsed", unparsed(replay.shard));
  to.flag("unread", replay.unread && replay.form != BodyForm::json && replay.form != BodyForm::opaque);
  to.flag("timed", a.timed);
  to.any("engine", figures(*a.engine));
  if (a.coalesced_reads > 0) to.any("coalesced", boost::json::array{a.coalesced_reads, a.coalesced_token_events});
  if (a.token_reads != a.token_events) to.number("token_reads", a.token_reads);
  // These follow from what stands above.
  to.flag("no event", !replay.meter.has_event() && a.events > 0);
  const bool marker = replay.form == BodyForm::json ? !a.unparsed : a.complete == Completeness::marker;
  to.flag("end unsaid", replay.meter.complete() != marker);
  to.flag("first token not observed", !first_token_observed(replay));
  to.flag("gaps differ", a.gaps.count() != count(replay.shard.inter_chunk_latency));
  to.flag("output differs", replay.shard.output_tokens.value() != a.counted_tokens);
  to.flag("unparsed differs", a.unparsed != !unparsed(replay.shard).empty());
  return to.take();
}

}  // namespace weir::metrics::measure
