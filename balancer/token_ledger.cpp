#include "balancer/token_ledger.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weir::balancer {

namespace {

// Drained work is fractional and gauges are not: a token counts until it is done. Sums of whole numbers come back to
// zero.
Tokens counted(double tokens) { return static_cast<Tokens>(std::ceil(tokens)); }

}  // namespace

Tokens TokenLedger::queued(const Entry& entry) {
  if (entry.first_token) return 0;
  return entry.silent ? counted(entry.work) : entry.uncached;
}

void TokenLedger::advance(Moment now) {
  if (now <= updated_) return;
  const double elapsed = metrics::seconds(now - updated_);
  updated_ = now;

  if (!entries_.empty()) integrals_.busy_seconds += elapsed;
  integrals_.context_seconds += static_cast<double>(gauges().context) * elapsed;
  integrals_.prefill_seconds += pending_ * elapsed;
  integrals_.decode_seconds += streaming_ * elapsed;
  if (silent_ > 0) drain(elapsed);

  while (!failures_.empty() && failures_.begin()->second.since <= now) {
    prefill_left_ -= failures_.begin()->second.uncached;
    failures_.erase(failures_.begin());
  }
}

// Prompts are worked on in the order of their arrival. A streamed prompt takes its share of the time, but stays in the
// gauge until its first token comes.
void TokenLedger::drain(double elapsed) {
  const double capacity = rates_.prefill * elapsed;
  double used = 0;
  for (auto& [ticket, entry] : entries_) {
    if (entry.first_token) continue;
    double prefilling = 0;  // Seconds that passed before the prompt was done.
    if (entry.work > 0) {
      prefilling = elapsed;
      if (const double done = std::min(entry.work, capacity - used); done > 0) {
        used += done;
        if (entry.silent) prefill_left_ -= counted(entry.work) - counted(entry.work - done);
        entry.work -= done;
        if (entry.work <= 0) prefilling = std::min(elapsed, used / rates_.prefill);
      }
    }
    if (!entry.silent) continue;
    integrals_.prefill_seconds += prefilling;
    integrals_.decode_seconds += elapsed - prefilling;
    const double made = std::min(entry.output_left, rates_.decode * (elapsed - prefilling));
    if (made <= 0) continue;
    const Tokens whole = counted(entry.output_left) - counted(entry.output_left - made);
    entry.output_left -= made;
    entry.drained += whole;
    streamed_.stream(whole, whole);
  }
}

void TokenLedger::open(Ticket ticket, const Work& work, Moment now) {
  advance(now);
  Entry entry;
  entry.since = updated_;
  entry.prompt = work.prompt;
  entry.uncached = work.uncached();
  entry.output = work.output;
  entry.longest_output = work.longest_output;
  entry.silent = !work.stream;
  entry.shows = work.stream;
  if (entry.shows && silent_ > 0) {
    for (const auto& [older, other] : entries_)
      if (other.silent) entry.silent_ahead += counted(other.work);
  }
  entry.work = static_cast<double>(entry.uncached);
  entry.output_left = work.stream ? 0 : static_cast<double>(work.output);
  entry.in_flight_at_start = gauges().in_flight;
  entry.in_flight_seconds_at_start = integrals_.prefill_seconds + integrals_.decode_seconds;
  entries_.emplace(ticket, entry);

  if (entry.shows) {
    begin_to_owe();
    if (in_order_++ == 0) worked_since_ = updated_;
  }
  ++(entry.silent ? silent_ : pending_);
  prompts_ += work.prompt;
  cached_ += work.cached;
  prefill_left_ += work.uncached();
  streamed_.decode_left.fetch_add(work.output, std::memory_order_relaxed);
}

std::optional<Tokens> TokenLedger::first_token(Ticket ticket, Moment now) {
  advance(now);
  Entry& entry = entries_.at(ticket);
  if (entry.first_token) return std::nullopt;
  prefill_left_ -= queued(entry);
  if (entry.shows) overtake(ticket);
  entry.first_token = updated_;
  life_ = updated_;
  --(entry.silent ? silent_ : pending_);
  ++streaming_;
  worked_since_ = updated_;
  integrals_.computed += static_cast<double>(entry.uncached);
  entry.at_first = integrals_;
  entry.silent = false;
  return counted(std::exchange(entry.output_left, 0.0));
}

/// The first token of this one comes: older prompts keep nobody waiting. Each entry is looked at once.
void TokenLedger::overtake(Ticket ticket) {
  if (ticket <= overtaken_) return;
  const auto end = entries_.upper_bound(ticket);
  for (auto one = entries_.upper_bound(overtaken_); one != end; ++one)
    if (waits_in_order(one->first, one->second)) --in_order_;
  overtaken_ = ticket;
}

TokenLedger::Closed TokenLedger::close(Ticket ticket, bool answered, Tokens output_left, Tokens streamed,
                                       Moment now) noexcept {
  advance(now);
  auto node = entries_.extract(ticket);
  Entry& entry = node.mapped();
  if (owes_tokens(ticket, entry)) --owing_;

  const Tokens left = queued(entry);
  const bool is_remembered = left > 0 && !answered;
  if (!is_remembered) prefill_left_ -= left;
  prompts_ -= entry.prompt;
  cached_ -= entry.prompt - entry.uncached;
  streamed_.decode_left.fetch_sub(output_left + counted(entry.output_left), std::memory_order_relaxed);
  streamed_.resident.fetch_sub(streamed + entry.drained, std::memory_order_relaxed);
  --(entry.silent ? silent_ : entry.first_token ? streaming_ : pending_);

  if (entry.first_token) ended_ = updated_;
  const auto waits_before = [&](const auto& one) {
    return one.first < ticket && waits_in_order(one.first, one.second);
  };
  if (waits_in_order(ticket, entry)) {
    --in_order_;
    if (std::ranges::none_of(entries_, waits_before)) worked_since_ = updated_;
  }

  Closed closed;
  if (const double decoded = entry.first_token ? metrics::seconds(updated_ - *entry.first_token) : 0; decoded > 0) {
    closed.sequences = std::max(1.0, (integrals_.decode_seconds - entry.at_first.decode_seconds) / decoded);
    closed.context = (integrals_.context_seconds - entry.at_first.context_seconds) / decoded;
    closed.computed = integrals_.computed - entry.at_first.computed;
  }
  closed.prompt = entry.prompt;
  closed.uncached = entry.uncached;
  closed.first_token = entry.first_token;
  closed.concurrency.in_flight_at_start = entry.in_flight_at_start;
  // A request that took no time ran beside those that are here now.
  const double lasted = metrics::seconds(updated_ - entry.since);
  const bool is_long_here = rates_.prefill <= 0 && updated_ - entry.since >= silent_prompt_takes;
  closed.computed_unseen = entry.silent && (entry.work <= 0 || is_long_here);
  closed.concurrency.in_flight_mean =
      lasted > 0 ? (integrals_.prefill_seconds + integrals_.decode_seconds - entry.in_flight_seconds_at_start) / lasted
                 : gauges().in_flight + 1;
  if (is_remembered) {
    entry.since = updated_ + failure_memory;
    entry.uncached = left;
    node.key() = ++failed_;
    failures_.insert(failures_.end(), std::move(node));
  }
  return closed;
}

void TokenLedger::begin_to_owe() {
  if (owing_++ == 0) owing_since_ = updated_;
}

void TokenLedger::leave_unread(Ticket ticket, bool unread, Moment now) {
  look(now);
  Entry& entry = entries_.at(ticket);
  if (std::exchange(entry.unread, unread) == unread || !entry.shows || ticket <= forgotten_) return;
  if (unread)
    --owing_;
  else
    begin_to_owe();
}

void TokenLedger::lives(Moment now) {
  look(now);
  life_ = updated_;
}

void TokenLedger::look(Moment now) {
  advance(now);
  const Tokens shown = streamed_.shown.load(std::memory_order_relaxed);
  if (shown != shown_) life_ = updated_;
  shown_ = shown;
}

double TokenLedger::seconds_since(Moment since) const {
  return metrics::seconds(updated_ - std::max(since, life_.value_or(since)));
}

std::optional<Moment> TokenLedger::last_life(Moment now) {
  look(now);
  return life_;
}

double TokenLedger::silent_seconds(Moment now) {
  look(now);
  return owing_ > 0 ? seconds_since(owing_since_) : 0;
}

TokenLedger::Silence TokenLedger::silence(Moment now) {
  Silence seen{.seconds = silent_seconds(now)};
  Tokens streams = 0;
  bool any_waits = false, any_is_due = false;
  for (const auto& [ticket, entry] : entries_) {
    seen.owes_more_tokens |= entry.first_token && owes_tokens(ticket, entry);
    if (!entry.first_token) seen.unanswered += entry.prompt;
    if (entry.shows && !entry.first_token) {
      if (!std::exchange(any_waits, true)) seen.oldest_unanswered_seconds = metrics::seconds(updated_ - entry.since);
      streams += entry.prompt;
      if (!any_is_due && owes(ticket, entry)) {
        any_is_due = true;
        seen.due_to_first_token = streams + entry.silent_ahead;
      }
    }
    if (!seen.unstreamed && !entry.shows && entry.prompt > 0 && owes(ticket, entry)) {
      const double silent = seconds_since(entry.since);
      seen.unstreamed = {silent, seen.unanswered, entry.output, longest_unstreamed_output(silent)};
    }
  }
  seen.longest_output = longest_unstreamed_output(seen.seconds);
  return seen;
}

Tokens TokenLedger::longest_unstreamed_output(double seconds) const {
  Tokens longest = 0;
  for (const auto& [ticket, entry] : entries_) {
    if (metrics::seconds(updated_ - entry.since) < seconds) break;
    if (!entry.shows && owes(ticket, entry)) longest = std::max(longest, entry.longest_output);
  }
  return longest;
}

Tokens TokenLedger::finished_unseen(Moment since) const {
  Tokens finished = 0;
  for (const auto& [ticket, entry] : entries_) {
    const bool done = entry.work <= 0 || updated_ - entry.since >= silent_prompt_takes;
    if (entry.silent && entry.since >= since && done) finished += entry.uncached;
  }
  return finished;
}

void TokenLedger::forget_silence() {
  owing_ = 0;
  if (!entries_.empty()) forgotten_ = entries_.rbegin()->first;
}

}  // namespace weir::balancer
