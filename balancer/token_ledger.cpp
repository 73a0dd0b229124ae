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

  if (!entries_.empty()) busy_seconds_ += elapsed;
  context_seconds_ += static_cast<double>(context()) * elapsed;
  prefill_seconds_ += pending_ * elapsed;
  decode_seconds_ += streaming_ * elapsed;
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
    prefill_seconds_ += prefilling;
    decode_seconds_ += elapsed - prefilling;
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
  entry.in_flight_at_start = in_flight();
  entry.in_flight_seconds_at_start = prefill_seconds_ + decode_seconds_;
  entries_.emplace(ticket, entry);  // Nothing has changed if it throws.

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
  computed_ += static_cast<double>(entry.uncached);
  entry.decode_seconds_at_first = decode_seconds_;
  entry.context_seconds_at_first = context_seconds_;
  entry.computed_at_first = computed_;
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
  const auto waits_before = [&](const auto& one) { return one.first < ticket && waits_in_order(one.first, one.second); };
  if (waits_in_order(ticket, entry)) {
    --in_order_;
    if (std::ranges::none_of(entries_, waits_before)) worked_since_ = updated_;
  }

  Closed closed;
  if (const double decoded = entry.first_token ? metrics::seconds(updated_ - *entry.first_token) : 0; decoded > 0) {
    closed.sequences = std::max(1.0, (decode_seconds_ - entry.decode_seconds_at_first) / decoded);
    closed.context = (context_seconds_ - entry.context_seconds_at_first) / decoded;
    closed.computed = computed_ - entry.computed_at_first;
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
      lasted > 0 ? (prefill_seconds_ + decode_seconds_ - entry.in_flight_seconds_at_start) / lasted : in_flight() + 1;
  if (is_remembered) {
    entry.since = updated_ + failure_memory;
    entry.uncached = left;
    node.key() = ++failed_;
    failures_.insert(failures_.end(), std::move(node));
  }
  return closed;
}

double TokenLedger::oldest_unanswered_seconds() const {
  for (const auto& [ticket, entry] : entries_) {
    if (entry.shows && !entry.first_token) return metrics::seconds(updated_ - entry.since);
  }
  return 0;
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

bool TokenLedger::lived_within(std::chrono::duration<double> time, Moment now) {
  look(now);
  return life_ && updated_ - *life_ < time;
}

std::optional<Moment> TokenLedger::last_life(Moment now) {
  look(now);
  return life_;
}

double TokenLedger::silent_seconds(Moment now) {
  look(now);
  return owing_ > 0 ? seconds_since(owing_since_) : 0;
}

std::optional<TokenLedger::Unstreamed> TokenLedger::oldest_unstreamed(Moment now) {
  look(now);
  if (entries_.size() == streaming_ + pending_) return std::nullopt;
  Tokens before = 0;
  for (const auto& [ticket, entry] : entries_) {
    if (!entry.first_token) before += entry.prompt;
    if (entry.shows || entry.prompt == 0 || !owes(ticket, entry)) continue;
    return Unstreamed{seconds_since(entry.since), before, entry.output};
  }
  return std::nullopt;
}

Tokens TokenLedger::longest_unstreamed_output(double seconds) const {
  Tokens longest = 0;
  for (const auto& [ticket, entry] : entries_) {
    if (metrics::seconds(updated_ - entry.since) < seconds) break;
    if (!entry.shows && owes(ticket, entry)) longest = std::max(longest, entry.longest_output);
  }
  return longest;
}

bool TokenLedger::owes_more_tokens() const {
  return std::ranges::any_of(entries_, [this](const auto& one) {
    return one.second.first_token && owes_tokens(one.first, one.second);
  });
}

Tokens TokenLedger::due_to_first_token() const {
  Tokens unanswered = 0;
  for (const auto& [ticket, entry] : entries_) {
    if (!entry.shows || entry.first_token) continue;
    unanswered += entry.prompt;
    if (owes_tokens(ticket, entry)) return unanswered + entry.silent_ahead;
  }
  return 0;
}

Tokens TokenLedger::unanswered() const {
  Tokens prompts = 0;
  for (const auto& [ticket, entry] : entries_)
    if (!entry.first_token) prompts += entry.prompt;
  return prompts;
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
