#include "balancer/prefix/index.hpp"

#include <algorithm>
#include <cmath>

namespace weir::balancer {

namespace {

constexpr std::uint32_t most_answer = 0xfffff, most_segment = 0xffffff, most_uses = 0x7ffff, most_doubts = 31;

std::uint32_t segment_of(Tokens tokens) { return static_cast<std::uint32_t>(std::min<Tokens>(tokens, most_segment)); }

Tokens share_of(Tokens tokens, std::uint64_t part, std::uint64_t whole) {
  if (part >= whole) return tokens;
  return static_cast<Tokens>(static_cast<double>(tokens) * static_cast<double>(part) / static_cast<double>(whole));
}

/// Room for replicas that come is made in steps, so that the table is not made anew for each of them.
std::size_t rounded(std::size_t places) { return (places + 3) / 4 * 4; }

}  // namespace

PrefixIndex::Table::Table(std::size_t of_places)
    : places(of_places),
      heads(bytes_per_replica * of_places / (sizeof(Line) + sizeof(Detail) + sizeof(Use) * of_places) / ways * ways),
      details(heads.size()),
      uses(heads.size() * of_places) {}

std::size_t PrefixIndex::Table::set_of(std::uint64_t key) const {
  const std::uint64_t sets = heads.size() / ways;
  return static_cast<std::size_t>(((key >> 32) * sets) >> 32) * ways;
}

std::size_t PrefixIndex::Table::find(std::uint64_t key) const {
  const std::size_t set = set_of(key);
  for (std::size_t line = set; line < set + ways; ++line)
    if (heads[line].key == key) return line;
  return no_line;
}

/// Knowledge of the replicas that stay is kept.
void PrefixIndex::set_places(std::size_t replicas) {
  ++changes_;
  if (replicas <= replicas_.size()) return;
  const std::size_t places = rounded(replicas);
  auto table = table_ ? std::make_unique<Table>(places) : nullptr;
  serials_.resize(places);
  found_.resize(places);
  replicas_.resize(places);
  if (!table_) return;
  const auto old = std::exchange(table_, std::move(table));
  for (std::size_t line = 0; line < old->lines(); ++line) {
    const Line& head = old->heads[line];
    if (head.key == 0) continue;
    const std::size_t place = claim(head.key);
    if (place == no_line) continue;
    table_->heads[place] = head;
    table_->details[place] = old->details[line];
    for (ReplicaIndex replica = 0; replica < old->places; ++replica)
      table_->use(place, replica) = old->use(line, replica);
  }
}

void PrefixIndex::place(const ReplicaKey& replica, Tokens capacity, std::size_t places) {
  set_places(std::max(places, replica.index + std::size_t{1}));
  if (serials_[replica.index] == replica.serial) return replicas_[replica.index].told(capacity);
  serials_[replica.index] = replica.serial;
  // The epochs in the table are those of the replica that had the place before.
  forget(replica.index);
  PrefixHoldings emptied = replicas_[replica.index].holdings();
  replicas_[replica.index] = ReplicaPrefixes(capacity);
  emptied.set_capacity(replicas_[replica.index].holdings().capacity());
  replicas_[replica.index].holdings() = emptied;
}

void PrefixIndex::wipe(ReplicaIndex replica, PrefixWipe why) {
  if (replicas_[replica].holdings().held() == 0) return;
  forget(replica);
  replicas_[replica].wiped(why, clock_);
}

void PrefixIndex::forget(ReplicaIndex replica) {
  ++changes_;
  PrefixHoldings& holdings = replicas_[replica].holdings();
  if (holdings.exhausted() && table_) {
    for (std::size_t line = 0; line < table_->lines(); ++line) table_->use(line, replica) = {};
  }
  holdings.wipe();
}

void PrefixIndex::forget_prompts() {
  ++changes_;
  table_.reset();
  for (ReplicaPrefixes& replica : replicas_) replica.holdings().wipe();
}

/// A request is looked up when it comes and when it goes, mostly within one call.
void PrefixIndex::find_lines(const PromptPrefix& prefix) {
  const std::uint64_t tail = prefix.anchors.empty() ? 0 : prefix.anchors.back().key;
  if (looked_.prefix == &prefix && looked_.tail == tail && looked_.lines == changes_) return;
  looked_ = {};
  lines_.assign(prefix.anchors.size(), no_line);
  tokens_.reserve(lines_.size());
  looked_ = {&prefix, tail, changes_};
  if (!table_) return;
  for (const auto& anchor : prefix.anchors) __builtin_prefetch(&table_->heads[table_->set_of(anchor.key)]);
  for (std::size_t i = 0; i < lines_.size(); ++i) lines_[i] = table_->find(prefix.anchors[i].key);
}

Tokens PrefixIndex::refine(const PromptPrefix& prefix, Tokens estimate) {
  if (prefix.token_ids || prefix.anchors.empty()) return estimate;
  find_lines(prefix);
  for (std::size_t i = lines_.size(); i-- > 0;) {
    if (lines_[i] == no_line || !table_->details[lines_[i]].exact) continue;
    const Tokens known = table_->heads[lines_[i]].tokens;
    const std::uint64_t length = prefix.length(), left = length - prefix.anchors[i].position;
    return known + share_of(estimate, left, length);
  }
  return estimate;
}

/// Tells the tokens up to each anchor: those that are known, and between them as many as the rest has on average.
void PrefixIndex::spread_tokens(const PromptPrefix& prefix, Tokens prompt) {
  tokens_.clear();
  Tokens known = 0;
  std::uint64_t known_at = 0;
  const auto tokens_a_position = [&] {
    return static_cast<double>(prompt - std::min(known, prompt)) / static_cast<double>(prefix.length() - known_at);
  };
  double rest = tokens_a_position();
  auto line = lines_.begin();
  for (const auto& [key, position] : prefix.anchors) {
    const bool is_exact = *line != no_line && table_->details[*line].exact;
    if (prefix.token_ids) {
      tokens_.push_back(std::min<Tokens>(position, prompt));
    } else if (is_exact) {
      known = std::clamp<Tokens>(table_->heads[*line].tokens, known, std::max(known, prompt));
      known_at = position;
      rest = tokens_a_position();
      tokens_.push_back(known);
    } else if (position == prefix.length()) {
      tokens_.push_back(std::max(known, prompt));
    } else {
      tokens_.push_back(known + static_cast<Tokens>(rest * static_cast<double>(position - known_at)));
    }
    ++line;
  }
}

/// Returns the tokens of the answer that lies between this anchor and the next.
Tokens PrefixIndex::answer_after(std::size_t anchor) const {
  if (anchor + 1 >= lines_.size() || lines_[anchor] == no_line) return 0;
  const Tokens answer = table_->details[lines_[anchor]].answer;
  return std::min(answer, tokens_[anchor + 1] - std::min(tokens_[anchor], tokens_[anchor + 1]));
}

std::span<const PrefixFound> PrefixIndex::look(const PromptPrefix& prefix, Tokens prompt) {
  find_lines(prefix);
  if (looked_.found == changes_ && looked_.prompt == prompt) return found_;
  looked_.found = changes_;
  looked_.prompt = prompt;
  std::ranges::fill(found_, PrefixFound{});
  spread_tokens(prefix, prompt);
  if (!table_) return found_;
  // An answer adds to the anchor before it; of two anchors the deeper one counts.
  for (ReplicaIndex replica = 0; replica < replicas_.size(); ++replica) {
    const PrefixHoldings& holdings = replicas_[replica].holdings();
    if (holdings.is_new()) continue;
    PrefixFound& found = found_[replica];
    for (std::size_t i = lines_.size(); i-- > 0;) {
      if (lines_[i] == no_line) continue;
      const Epoch used = table_->use(lines_[i], replica).epoch;
      if (!holdings.remembers(used)) continue;
      const Tokens answer = answer_after(i);
      const Tokens found_again = believed(answer);
      found.remembered = std::max(found.remembered, capped(tokens_[i] + found_again));
      if (!holdings.holds(used)) continue;
      found.held = capped(tokens_[i] + found_again);
      found.answer = capped(found_again);
      found.answer_whole = capped(answer);
      found.depth = capped(holdings.depth(used));
      found.uses = static_cast<std::uint32_t>(table_->details[lines_[i]].uses);
      break;
    }
  }
  return found_;
}

Tokens PrefixIndex::cached(ReplicaIndex replica, Tokens prompt) const {
  const ReplicaPrefixes& one = replicas_[replica];
  const Tokens held = found_[replica].held;
  if (held == 0 || prompt == 0) return 0;
  const auto believed = static_cast<Tokens>(static_cast<double>(held) * one.believed());
  return believed < least_cached ? 0 : std::min(believed, prompt - 1);
}

/// Work that is done twice takes another prompt's place in a cache, and keeps those waiting that come after. But a
/// beginning that others will have, too, is computed once for all of them: the price halves with each request that has
/// used it, and goes to -1, which is nothing at all.
///
/// An entry of a full cache pushes out what others may want again. How often they do, the replica has shown. A
/// copy that is used stays: so it takes as much room as it has sunk towards the end of the cache.
double PrefixIndex::waste(ReplicaIndex best, ReplicaIndex replica, Tokens most, Tokens cached) const {
  constexpr double unshared = 4, of_room = 8;
  const double price = unshared * std::exp2(-static_cast<double>(found_[best].uses)) - 1;
  const double twice = price * static_cast<double>(most - cached);
  const PrefixHoldings& holdings = replicas_[replica].holdings();
  const Tokens bucket = holdings.capacity() / PrefixHoldings::buckets_of_capacity;
  if (holdings.held() + (most - cached) + bucket <= holdings.capacity()) return twice;
  const double sunk =
      cached > 0 ? static_cast<double>(found_[replica].depth) / static_cast<double>(holdings.capacity()) : 1;
  return twice + of_room * replicas_[replica].wanted_again() * std::min(sunk, 1.0) * static_cast<double>(most);
}

void PrefixIndex::release(std::size_t line) {
  for (ReplicaIndex replica = 0; replica < replicas_.size(); ++replica) {
    Use& use = table_->use(line, replica);
    replicas_[replica].holdings().release(use.epoch, table_->details[line].segment);
    use = {};
  }
}

/// Returns the line of a key that has none: an empty one, or that which was used longest ago. Returns no_line if all of
/// its set are of the prompt that is being entered.
std::size_t PrefixIndex::claim(std::uint64_t key) {
  const std::size_t set = table_->set_of(key);
  std::size_t oldest = set;
  for (std::size_t line = set; line < set + ways; ++line) {
    if (table_->heads[line].key == 0) return line;
    if (clock_ - table_->heads[line].used > clock_ - table_->heads[oldest].used) oldest = line;
  }
  if (table_->heads[oldest].used == clock_) return no_line;
  release(oldest);
  table_->heads[oldest] = {};
  table_->details[oldest] = {};
  return oldest;
}

void PrefixIndex::count_use(Detail& detail) {
  if (detail.uses < most_uses) detail.uses = detail.uses + 1 & most_uses;
}

PrefixPrediction PrefixIndex::sent(const PromptPrefix& prefix, ReplicaIndex replica, Tokens prompt, Tokens most,
                                   Client client) {
  if (prefix.anchors.empty()) return {};
  if (!table_) {
    table_ = std::make_unique<Table>(replicas_.size());
    ++changes_;
  }
  look(prefix, prompt);
  PrefixPrediction prediction{prefix.anchors.back().key, capped(cached(replica, prompt)), found_[replica]};
  prediction.client = client;
  ReplicaPrefixes& one = replicas_[replica];
  if (one.holdings().exhausted()) forget(replica);
  const auto is_held = [&](std::size_t line) {
    return line != no_line && one.holdings().holds(table_->use(line, replica).epoch);
  };
  const auto last_held = std::find_if(lines_.rbegin(), lines_.rend(), is_held);
  const auto last_sure = std::find_if(last_held, lines_.rend(), [&](std::size_t line) {
    return is_held(line) && table_->use(line, replica).doubts == 0;
  });
  prediction.held_anchors = static_cast<std::uint32_t>(lines_.rend() - last_held);
  prediction.sure_anchors = static_cast<std::uint32_t>(lines_.rend() - last_sure);
  const auto last_lost = std::find_if(lines_.rbegin(), lines_.rend(), [&](std::size_t line) {
    return line != no_line && one.holdings().lost(table_->use(line, replica).epoch);
  });
  const Tokens had = last_lost == lines_.rend() ? 0 : tokens_[static_cast<std::size_t>(lines_.rend() - last_lost) - 1];
  one.count_sent(prediction, prompt, most, had);

  ++changes_;
  prediction.entered = ++clock_;
  one.keep_up(clock_);
  for (const std::size_t line : lines_)
    if (line != no_line) table_->heads[line].used = clock_;
  // The end of a prompt leaves an engine's cache first, so the beginning is used last.
  for (std::size_t i = lines_.size(); i-- > 0;) {
    std::size_t line = lines_[i];
    if (line == no_line) {
      line = claim(prefix.anchors[i].key);
      if (line == no_line) continue;
      // The answer before belongs to the anchor before.
      const Tokens before = i > 0 ? tokens_[i - 1] + believed(answer_after(i - 1)) : 0;
      table_->heads[line] = {prefix.anchors[i].key, capped(tokens_[i]), clock_};
      table_->details[line] = {segment_of(tokens_[i] - std::min(before, tokens_[i])), 0, 0, prefix.token_ids};
    }
    Detail& detail = table_->details[line];
    if (i < prediction.sure_anchors) count_use(detail);
    Use& use = table_->use(line, replica);
    if (i < prediction.sure_anchors)
      use.doubts = 0;
    else if (!one.holdings().holds(use.epoch))
      use.doubts = 1;
    else if (use.doubts < most_doubts)
      use.doubts = use.doubts + 1 & most_doubts;
    use.epoch = one.holdings().use(use.epoch, detail.segment);
  }
  return prediction;
}

void PrefixIndex::answered(const PrefixPrediction& prediction, ReplicaIndex replica, Tokens prompt,
                           const PrefixReport& report) {
  if (prediction.tail == 0) return;
  ++changes_;
  ReplicaPrefixes& one = replicas_[replica];
  if (const std::size_t line = find(prediction.tail); line != no_line && !one.was_lost(prediction)) {
    Line& head = table_->heads[line];
    Detail& detail = table_->details[line];
    if (report.prompt && *report.prompt > 0) {
      head.tokens = capped(*report.prompt);
      detail.exact = 1;
    }
    // An engine's cache orders blocks by when their request let them go, so the end of an answer is a use.
    Use& use = table_->use(line, replica);
    one.holdings().release(use.epoch, detail.segment);
    const Tokens without = detail.segment - std::min<Tokens>(detail.segment, detail.answer);
    detail.answer = std::min<Tokens>(report.output.value_or(0), most_answer) & most_answer;
    detail.segment = segment_of(without + detail.answer) & most_segment;
    use.epoch = one.holdings().use(0, detail.segment);
    use.doubts = 0;  // Another prompt may have brought the line in again, and in doubt.
  }
  // The estimate counts what the engine renders nothing of, such as the reasoning of earlier turns. That is not held.
  PrefixPrediction rendered = prediction;
  const Tokens counted = report.prompt.value_or(prompt);
  if (counted < prompt) {
    rendered.found.held = capped(share_of(prediction.found.held, counted, prompt));
    rendered.found.remembered = capped(share_of(prediction.found.remembered, counted, prompt));
  }
  if (!report.cached) return one.unreported(rendered);
  const PrefixFound& found = prediction.found;
  if (found.answer_whole >= 64 && !one.is_past(prediction)) {
    constexpr double memory = 20;
    const Tokens before = found.held - found.answer;
    const double share = *report.cached <= before
                             ? 0
                             : static_cast<double>(*report.cached - before) / static_cast<double>(found.answer_whole);
    // A miss of what came before the answer says nothing of answers.
    if (*report.cached + 128 > before) answers_believed_ += (std::min(share, 1.0) - answers_believed_) / memory;
  }
  if (one.judge(rendered, counted, *report.cached, report.at)) wipe(replica, PrefixWipe::missed);
}

void PrefixIndex::computed(const PromptPrefix& prefix, const PrefixPrediction& prediction, ReplicaIndex replica) {
  ReplicaPrefixes& one = replicas_[replica];
  if (one.was_lost(prediction)) return;
  ++changes_;
  for (std::size_t i = prediction.sure_anchors; i < prefix.anchors.size(); ++i) {
    const std::size_t line = find(prefix.anchors[i].key);
    if (line == no_line) continue;
    // Prompts that failed may have taken the line out after this one had come.
    Use& use = table_->use(line, replica);
    // Siblings that came while the first of them was computed count as soon as they are: else the next of them would be
    // computed elsewhere.
    if (i < prediction.held_anchors) count_use(table_->details[line]);
    if (!one.holdings().holds(use.epoch)) use.epoch = one.holdings().use(use.epoch, table_->details[line].segment);
    use.doubts = 0;
  }
}

void PrefixIndex::failed(const PromptPrefix& prefix, const PrefixPrediction& prediction, ReplicaIndex replica) {
  ReplicaPrefixes& one = replicas_[replica];
  if (one.is_past(prediction)) return;
  ++changes_;
  for (std::size_t i = prediction.sure_anchors; i < prefix.anchors.size(); ++i) {
    const std::size_t line = find(prefix.anchors[i].key);
    if (line == no_line) continue;
    Use& use = table_->use(line, replica);
    if (use.doubts == 0 || !one.holdings().holds(use.epoch)) continue;
    // A saturated counter says too little: the line is dropped on the first failure, and entered again on the next
    // success.
    if (use.doubts > 1 && use.doubts < most_doubts) {
      use.doubts = use.doubts - 1 & most_doubts;
      continue;
    }
    one.holdings().release(use.epoch, table_->details[line].segment);
    use = {};
  }
}

std::size_t PrefixIndex::bytes() const {
  if (!table_) return 0;
  return table_->lines() * (sizeof(Line) + sizeof(Detail) + sizeof(Use) * table_->places);
}

}  // namespace weir::balancer
