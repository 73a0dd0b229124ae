#include "metrics/measure/answer_tally.hpp"

#include <algorithm>
#include <utility>

#include "metrics/memory.hpp"

namespace weir::metrics::measure {

namespace {

std::uint64_t nanoseconds(Moment from, Moment to) {
  return to > from ? static_cast<std::uint64_t>(Nanoseconds(to - from).count()) : 0;
}

}  // namespace

AnswerTally::AnswerTally(series::ReplicaShard& shard, std::uint32_t choices, std::uint32_t prompts, Moment received,
                         Moment sent)
    : shard_(shard),
      expected_choices_(std::max(choices, 1U)),
      one_prompt_(prompts <= 1),
      received_(received),
      sent_(sent) {}

void AnswerTally::read(Moment at) {
  if (progress_.last_read == at) return;
  progress_.last_read = at;
  ++answer_.reads;
  backlog_ = std::exchange(backlog_next_, false);
  if (backlog_) ++pauses_;
}

void AnswerTally::prefetch() const { metrics::prefetch(answer_.gaps.bins().data(), answer_.gaps.bins().size_bytes()); }

void AnswerTally::unparsed(series::Unparsed why) {
  answer_.unparsed = true;
  for (Choice& one : choices_) one.count_known = false;  // The unread part may have brought tokens.
  shard_.unparsed.add(why);
}

void AnswerTally::event(const wire::EventFacts& facts, Moment at, ReadCounts& counts) {
  ++counts.events;
  if (facts.error) {
    answer_.in_band_error = true;
    // Behind output each error is the replica's, whatever its status: vLLM writes 400 where a failure has none.
    if (!progress_.begun) answer_.in_band_status = facts.error_status;
    progress_.refused |= !progress_.begun;
  }
  ++answer_.events;
  // Once tokens have been read, an event that says nothing brings none.
  counts.unread |= facts.broken || (facts.says_nothing() && !answer_.first_token);
  if (facts.broken) unparsed(series::Unparsed::broken_json);
  if (facts.marker) answer_.complete = Completeness::marker;
  if (facts.carries_choice) {
    if (!answer_.first_choice) answer_.first_choice = at;
    answer_.last_choice = at;
  }
  for (const wire::ChoiceFacts& said : facts.choices) choice_event(facts, said, at, counts);
  progress_.begun = progress_.begun || !facts.opens_choices || answer_.token_events > 0;
  prompt(facts);
  usage(facts);
  reasoning(facts);
  finish_reason(facts.finish_reason);
  answer_.output_chars += facts.output_chars;
  answer_.timed |= facts.timed;
}

bool AnswerTally::finished_before(const wire::EventFacts& facts) const {
  return std::ranges::all_of(facts.choices, [this](const wire::ChoiceFacts& said) {
    return said.index < choices_.size() && choices_[said.index].finished;
  });
}

/// Samples of one prompt all report the same prompt. In a list of prompts each choice reports its own, and only an
/// event for all of them knows the sum.
void AnswerTally::prompt(const wire::EventFacts& facts) {
  if (!facts.prompt_tokens && !facts.cached_tokens && !facts.prompt_parts) return;
  const bool of_all = (facts.choices.empty() && !facts.of_one_choice) || expected_choices_ == 1;
  if (!of_all && !one_prompt_) return;
  if (facts.prompt_tokens) answer_.prompt_tokens = facts.prompt_tokens;
  if (facts.cached_tokens) answer_.cached_tokens = facts.cached_tokens;
  if (facts.prompt_parts) {
    prompt_parts_.make().update(*facts.prompt_parts);
    answer_.prompt_tokens = prompt_parts_->whole();
    answer_.cached_tokens = prompt_parts_->cache_read;
  }
  drop_impossible_cache();
}

/// Cached tokens are some of the prompt's. A count that is greater cannot be of the same prompt.
void AnswerTally::drop_impossible_cache() {
  if (answer_.prompt_tokens && answer_.cached_tokens > answer_.prompt_tokens) answer_.cached_tokens.reset();
}

AnswerTally::Choice* AnswerTally::choice(std::uint32_t index) {
  if (index >= most_choices) {
    too_many_choices_ = true;
    return nullptr;
  }
  if (index >= choices_.size()) {
    choices_.resize(index + 1, Choice{.count_known = !answer_.unparsed});
  }
  return &choices_[index];
}

void AnswerTally::choice_event(const wire::EventFacts& facts, const wire::ChoiceFacts& said, Moment at,
                               ReadCounts& counts) {
  Choice* const of = choice(said.index);
  std::optional<std::uint64_t> k;
  bool token = said.token;
  if (of != nullptr) {
    k = count_tokens(facts, said, *of);
    token |= k.value_or(0) > 0;  // A count that rises is a token event, whatever the delta shows.
  }
  // The text of a refusal is no output. Another replica may have the request next, and its tokens are the answer's.
  if (facts.prefill_progress || progress_.refused) token = false;
  // The delta is read before its finish: the last token may come with it.
  if (token) token_event(said, of, k, at, counts);
  if (of == nullptr) return;
  of->last = at;
  if (said.finished && !of->finished) {
    of->closed_empty = !token;
    of->finished = true;
    last_finished_ = said.index;
  }
}

std::optional<std::uint64_t> AnswerTally::count_tokens(const wire::EventFacts& facts, const wire::ChoiceFacts& said,
                                                       Choice& of) const {
  // With several choices in one event a count belongs to none of them.
  auto total = facts.choices.size() == 1 ? facts.completion_tokens : std::nullopt;
  if (total == 0U && said.token) total.reset();  // Some gateways write 0 beside a token when they have no count.
  std::optional<std::uint64_t> k;
  if (said.tokens) {
    k = *said.tokens;
  } else if (total && of.count_known) {
    k = *total > of.count ? *total - of.count : 0;
  }
  if (total) {
    of.count_known = true;
    of.count = std::max(of.count, *total);
  } else if (k) {
    of.count += *k;
  } else if (said.token) {
    of.count_known = false;
  }
  return k;
}

void AnswerTally::token_event(const wire::ChoiceFacts& said, Choice* of, std::optional<std::uint64_t> k, Moment at,
                              ReadCounts& counts) {
  (k ? k_known_ : k_unknown_) = true;
  answer_.tokens_per_event = k_unknown_ ? TokensPerEvent::unknown : TokensPerEvent::wire;
  ++answer_.token_events;
  ++counts.token_events;
  const std::uint64_t tokens = k.value_or(1);
  counts.tokens += static_cast<std::uint32_t>(std::min<std::uint64_t>(tokens, UINT32_MAX));
  answer_.counted_tokens += tokens;
  shard_.output_tokens.add(tokens);

  if (!answer_.first_token) {
    answer_.first_token = at;
    answer_.first_output_tokens = k;
    counts.first_token = true;
    shard_.time_to_first_token.observe(nanoseconds(sent_, at));
    shard_.client_time_to_first_token.observe(nanoseconds(received_, at));
  }
  if (said.output && !answer_.first_output) answer_.first_output = at;
  reasoned_ |= said.token && !said.output;
  if (at != *answer_.first_token) answer_.token_events_in_different_reads = true;
  if (at != last_token_read_) ++answer_.token_reads;
  last_token_read_ = at;
  if (of == nullptr) return;
  coalesce(*of, at);
  observe_gaps(*of, k, at);
  ++of->token_events;
}

/// Counts token events of one choice that came in one read. Their gaps show a hop that buffers, or an engine that
/// writes several at a time; they are no time per token. Events that gathered during a pause of weir's own are left
/// out.
void AnswerTally::coalesce(Choice& of, Moment at) {
  if (!of.begun || of.last_event != at || backlog_) {
    of.coalesced = false;
    return;
  }
  answer_.coalesced_token_events += of.coalesced ? 1 : 2;
  of.coalesced = true;
  if (at != last_coalesced_read_) ++answer_.coalesced_reads;
  last_coalesced_read_ = at;
}

void AnswerTally::observe_gaps(Choice& of, std::optional<std::uint64_t> k, Moment at) {
  if (of.begun) {
    if (of.pauses_at_event == pauses_ && !backlog_) {
      const std::uint64_t gap = nanoseconds(of.last_event, at);
      shard_.inter_chunk_latency.observe(gap);
      answer_.gaps.add(Nanoseconds(gap));
    }
    if (k.value_or(0) > 0 && of.pauses_at_counted == pauses_ && !backlog_ && !k_unknown_) {
      shard_.inter_token_latency.observe(nanoseconds(of.last_counted, at) / *k, *k);
    }
  }
  if (!of.begun) {
    of.first_event = at;
    of.first_count = k.value_or(1);
  }
  of.apart |= at != of.first_event;
  if (!of.begun || k.value_or(1) > 0) {
    of.last_counted = at;
    of.pauses_at_counted = pauses_;
  }
  of.begun = true;
  of.last_event = at;
  of.pauses_at_event = pauses_;
}

void AnswerTally::usage(const wire::EventFacts& facts) {
  if (facts.choices.empty()) {
    if (!facts.completion_tokens || (facts.completion_tokens == 0U && answer_.token_events > 0)) return;
    if (facts.of_one_choice && (expected_choices_ > 1 || choices_.size() > 1))
      return usage_of_one_choice(*facts.completion_tokens);
    answer_.output_tokens = facts.completion_tokens;
    answer_.token_source = TokenSource::usage;
    total_known_ = true;
  } else if (!total_known_) {
    sum_counts(facts.one_token_an_event && !facts.completion_tokens);
  }
}

/// Takes the count of all choices. A 0 behind reasoning is a blank, and more than n cannot be some of n.
void AnswerTally::reasoning(const wire::EventFacts& facts) {
  if (!facts.reasoning_tokens) return;
  if (expected_choices_ > 1 && (!facts.choices.empty() || facts.of_one_choice)) return;
  answer_.reasoning_tokens = facts.reasoning_tokens;
  const bool blank = reasoned_ && answer_.reasoning_tokens == 0U;
  if (blank || answer_.reasoning_tokens > answer_.output_tokens) answer_.reasoning_tokens.reset();
}

/// llama.cpp sends a usage event for each choice, right behind its finish; these are added up.
void AnswerTally::usage_of_one_choice(std::uint64_t tokens) {
  if (total_known_ || last_finished_ >= choices_.size()) return;
  Choice& one = choices_[last_finished_];
  one.count = tokens;
  one.count_known = true;
  sum_counts(false);
}

/// Drops a total that is below the number of token events, since each event has at least one token. Some gateways
/// report the usage of one of several choices as that of all.
void AnswerTally::drop_total_of_one_choice() {
  if (expected_choices_ < 2 || !total_known_ || answer_.output_tokens >= answer_.token_events) return;
  answer_.output_tokens.reset();
  answer_.token_source = TokenSource::none;
}

/// Sets n as far as the answer has come: the sum over choices, once each choice's own count is known.
void AnswerTally::sum_counts(bool by_events) {
  std::uint64_t sum = 0;
  bool begun = false;
  for (const Choice& one : choices_) {
    if (!one.count_known || too_many_choices_) {
      answer_.output_tokens.reset();
      answer_.token_source = TokenSource::none;
      return;
    }
    begun |= one.begun;
    sum += one.count;
  }
  if (!begun && sum == 0) return;
  answer_.output_tokens = sum;
  answer_.token_source = by_events ? TokenSource::events : TokenSource::usage;
}

void AnswerTally::finish_reason(std::string_view reason) {
  if (reason.empty() || !answer_.finish_reason.empty()) return;
  // The reason goes into a log line, so only plain characters are kept.
  for (const char c : reason.substr(0, 32))
    answer_.finish_reason += c > ' ' && c <= '~' && c != '"' && c != '\\' ? c : '?';
}

/// Where the usage covers one choice of several, some tokens are not counted, and n stays unknown.
void AnswerTally::json(const wire::JsonAnswerFacts& facts) {
  const bool of_all = !facts.of_one_choice || expected_choices_ == 1;
  if (one_prompt_ || (facts.documents == 1 && of_all)) {
    answer_.prompt_tokens = facts.prompt_tokens;
    answer_.cached_tokens = facts.cached_tokens;
    drop_impossible_cache();
  }
  const bool told = facts.completion_tokens > 0U || facts.choices_with_output == 0;
  if (told && of_all) answer_.output_tokens = facts.completion_tokens;
  if (facts.reasoning_tokens <= answer_.output_tokens) answer_.reasoning_tokens = facts.reasoning_tokens;
  answer_.token_source = answer_.output_tokens ? TokenSource::usage : TokenSource::none;
  answer_.token_events = facts.choices_with_output;
  answer_.output_chars = facts.output_chars;
  answer_.in_band_error = facts.error;
  finish_reason(facts.finish_reason);
  answer_.counted_tokens = told ? facts.completion_tokens.value_or(0) : 0;
  shard_.output_tokens.add(answer_.counted_tokens);
}

bool AnswerTally::every_choice_finished() const {
  const auto finished = std::count_if(choices_.begin(), choices_.end(), [](const Choice& one) { return one.finished; });
  return !too_many_choices_ && static_cast<std::size_t>(finished) == choices_.size() &&
         choices_.size() >= expected_choices_;
}

/// True if each event brought one token (docs/reference/metrics.md): n equals the number of token events, or that
/// number plus the empty event that closed each choice. With several choices n is their sum. Each event brings at least
/// one token, so the sums are equal only if none brought more.
bool AnswerTally::one_token_each() const {
  if (answer_.unparsed || k_known_ || !k_unknown_ || choices_.size() != expected_choices_ || too_many_choices_)
    return false;
  if (!answer_.output_tokens || answer_.token_source != TokenSource::usage) return false;
  const auto closing = std::count_if(choices_.begin(), choices_.end(), [](const Choice& c) { return c.closed_empty; });
  const std::uint64_t n = *answer_.output_tokens;
  return n == answer_.token_events || n == answer_.token_events + static_cast<std::uint64_t>(closing);
}

/// Records each choice's own times where its count is known: from the wire, or as one token an event.
void AnswerTally::settle_choices() {
  if (expected_choices_ < 2 || choices_.size() != expected_choices_ || too_many_choices_ || answer_.unparsed) return;
  const bool settled = answer_.tokens_per_event == TokensPerEvent::settled;
  const bool with_closing = settled && answer_.output_tokens > answer_.token_events;
  const auto known = [&](const Choice& one) { return one.begun && (settled || (one.count_known && !k_unknown_)); };
  if (!std::all_of(choices_.begin(), choices_.end(), known)) return;
  answer_.choices.reserve(choices_.size());
  for (const Choice& one : choices_) {
    const std::uint64_t tokens = settled ? one.token_events + (with_closing && one.closed_empty ? 1U : 0U) : one.count;
    // A choice that came in one read has no time of generation; n1 = n says so.
    answer_.choices.push_back({one.first_event, one.last, tokens, one.apart || !k_unknown_ ? one.first_count : tokens});
  }
}

void AnswerTally::end(bool whole, bool framed, bool by_framing, Moment at) {
  answer_.end = at;
  drop_total_of_one_choice();
  if (one_token_each()) answer_.tokens_per_event = TokensPerEvent::settled;
  settle_choices();
  if (!whole || answer_.complete == Completeness::marker) return;
  if (by_framing) {
    answer_.complete = framed ? Completeness::framing : Completeness::eof;
  } else if (every_choice_finished()) {
    answer_.complete = Completeness::finish;
  }
}

}  // namespace weir::metrics::measure
