#include "balancer/waiting_queue.hpp"

#include <bit>
#include <limits>

namespace weir::balancer {

Tokens WaitingQueue::cost(const WaitingRequest& request) {
  return std::max(least_cost, request.uncached() + request.output_cost);
}

std::int64_t WaitingQueue::cost(const Entry& entry) { return static_cast<std::int64_t>(cost(entry.request)); }

WaitingQueue::GroupKey WaitingQueue::group_of(const WaitingRequest& request) {
  return {request.tried, request.fit, std::bit_width(request.uncached())};
}

WaitingQueue::Flow& WaitingQueue::flow_of(const WaitingRequest& request) {
  if (request.front_of_queue) return front_of_queue_;
  const auto found = flows_.find(request.key);
  if (found != flows_.end()) return *found->second;
  if (flows_.size() >= most_keys) return beyond_;
  auto& flow = flows_[request.key] = std::make_unique<Flow>();
  flow->key = request.key;
  return *flow;
}

WaitTicket WaitingQueue::push(WaitingRequest request) {
  Flow& flow = flow_of(request);
  if (&flow != &front_of_queue_) {
    if (flow.entries.empty()) {
      flow.turn = turns_.insert(turns_.end(), &flow);
    } else {
      forget_measure(flow);
    }
  }
  tokens_ += request.uncached();
  bytes_ += request.bytes;
  flow.tokens += request.uncached();
  flow.cost += cost(request);
  flow.bytes += request.bytes;
  if (&flow != &beyond_ && &flow != &front_of_queue_) flow.share = request.share;
  prompts_.insert(request.uncached());

  auto entry = std::make_unique<Entry>();
  entry->ticket = ++tickets_;
  entry->flow = &flow;
  entry->in_flow = flow.entries.insert(flow.entries.end(), entry.get());
  entry->request = std::move(request);
  add_to_group(*entry);
  entries_.emplace(tickets_, std::move(entry));
  if (&flow != &front_of_queue_) measure(flow);
  return tickets_;
}

void WaitingQueue::add_to_group(Entry& entry) {
  Group& group = entry.flow->groups[group_of(entry.request)];
  group.by_age.emplace(entry.ticket, &entry);
  group.by_prompt.emplace(std::pair(entry.request.uncached(), entry.ticket), &entry);
}

void WaitingQueue::take_from_group(const Entry& entry) {
  const auto found = entry.flow->groups.find(group_of(entry.request));
  Group& group = found->second;
  group.by_age.erase(entry.ticket);
  group.by_prompt.erase({entry.request.uncached(), entry.ticket});
  if (group.by_age.empty()) entry.flow->groups.erase(found);
}

void WaitingQueue::regroup(const std::function<WaitingRequest::Fit(const WaitingRequest&)>& fit_of) {
  for (const auto& [ticket, entry] : entries_) {
    const auto fit = fit_of(entry->request);
    if (fit == entry->request.fit) continue;
    take_from_group(*entry);
    entry->request.fit = fit;
    add_to_group(*entry);
  }
}

void WaitingQueue::measure(Flow& flow) {
  const Entry& newest = *flow.entries.back();
  by_requests_.insert({flow.entries.size(), !newest.request.returned, newest.ticket, &flow});
  by_bytes_.insert({flow.bytes, !newest.request.returned, newest.ticket, &flow});
  work_.add(flow.work());
  tokens_by_share_.add(flow.cost_by_share(), static_cast<double>(flow.tokens));
}

void WaitingQueue::forget_measure(const Flow& flow) {
  const Entry& newest = *flow.entries.back();
  by_requests_.erase({flow.entries.size(), !newest.request.returned, newest.ticket, newest.flow});
  by_bytes_.erase({flow.bytes, !newest.request.returned, newest.ticket, newest.flow});
  work_.remove(flow.work());
  tokens_by_share_.remove(flow.cost_by_share(), static_cast<double>(flow.tokens));
}

WaitingRequest WaitingQueue::take_out(Entry& entry) {
  Flow& flow = *entry.flow;
  if (&flow != &front_of_queue_) forget_measure(flow);
  take_from_group(entry);
  WaitingRequest request = std::move(entry.request);
  tokens_ -= request.uncached();
  bytes_ -= request.bytes;
  flow.tokens -= request.uncached();
  flow.cost -= cost(request);
  flow.bytes -= request.bytes;
  prompts_.erase(prompts_.find(request.uncached()));
  if (entry.passed) passed_.erase(*entry.passed);
  flow.entries.erase(entry.in_flow);
  entries_.erase(entries_.find(entry.ticket));
  if (&flow != &front_of_queue_ && !flow.entries.empty()) measure(flow);
  erase_if_empty(flow);
  return request;
}

/// A flow that has nothing to send loses its place and its credit.
void WaitingQueue::erase_if_empty(Flow& flow) {
  if (!flow.entries.empty() || &flow == &front_of_queue_) return;
  if (turns_.front() == &flow) in_turn_ = false;
  turns_.erase(flow.turn);
  if (&flow == &beyond_) {
    flow.credit = 0;
  } else {
    flows_.erase(flows_.find(flow.key));
  }
}

std::optional<WaitingRequest> WaitingQueue::leave(WaitTicket ticket) {
  const auto found = entries_.find(ticket);
  if (found == entries_.end()) return std::nullopt;
  return take_out(*found->second);
}

WaitingRequest WaitingQueue::take(WaitTicket ticket) {
  Entry& entry = *entries_.at(ticket);
  entry.flow->credit -= cost(entry);
  return take_out(entry);
}

/// Returns the oldest request of the flow that fits, or one of its size. The search runs once a look.
WaitingQueue::Entry* WaitingQueue::first_that_fits(Flow& flow, const Fits& fits) {
  if (flow.looked == looks_) return flow.fitting;
  flow.looked = looks_;
  flow.fitting = nullptr;
  const auto look_at = [&](Entry& entry) {
    if (flow.fitting && flow.fitting->ticket < entry.ticket) return true;
    if (!fits(entry.request)) return false;
    flow.fitting = &entry;
    return true;
  };
  for (const auto& [key, group] : flow.groups) {
    Entry &oldest = *group.by_age.begin()->second, &shortest = *group.by_prompt.begin()->second;
    if (!look_at(oldest) && &shortest != &oldest) look_at(shortest);
  }
  return flow.fitting;
}

/// Returns the request that the flow spends its credit on: its oldest, if none fits.
WaitingQueue::Entry& WaitingQueue::wanted_of(Flow& flow, const Fits& fits) {
  Entry* const entry = first_that_fits(flow, fits);
  return entry ? *entry : *flow.entries.front();
}

/// Gives all flows as many turns as they need before the first of them can pay for a request that fits, but for the
/// last. In these nobody would go.
void WaitingQueue::give_rounds_in_vain(const Fits& fits, Moment now) {
  std::int64_t rounds = std::numeric_limits<std::int64_t>::max();
  for (Flow* const flow : turns_) {
    const Entry* const entry = first_that_fits(*flow, fits);
    if (entry) rounds = std::min(rounds, flow->turns_to(cost(*entry)) - 1);
  }
  if (rounds <= 0) return;
  for (Flow* const flow : turns_) {
    Entry& wanted = wanted_of(*flow, fits);
    flow->credit += std::min(rounds, flow->turns_to(cost(wanted))) * flow->earns();
    if (&wanted != flow->fitting && flow->credit >= cost(wanted)) pass_over(wanted, now);
  }
}

void WaitingQueue::pass_over(Entry& entry, Moment now) {
  if (!entry.passed) entry.passed = passed_.insert(passed_.end(), {entry.ticket, now});
}

void WaitingQueue::end_turn() {
  turns_.splice(turns_.end(), turns_, turns_.begin());
  in_turn_ = false;
}

std::optional<std::pair<WaitTicket, WaitingRequest>> WaitingQueue::take_next(const Fits& fits, Moment now) {
  ++looks_;
  const auto taken = [&](Entry& entry) {
    Entry& oldest = *entry.flow->entries.front();
    if (&oldest != &entry) pass_over(oldest, now);
    const WaitTicket ticket = entry.ticket;
    return std::pair(ticket, take_out(entry));
  };
  if (Entry* const entry = first_that_fits(front_of_queue_, fits)) return taken(*entry);
  if (std::ranges::none_of(turns_, [&](Flow* flow) { return first_that_fits(*flow, fits) != nullptr; }))
    return std::nullopt;
  if (!front_of_queue_.entries.empty()) pass_over(*front_of_queue_.entries.front(), now);
  for (bool rounds_to_give = true;; end_turn()) {
    // A turn that has begun ends before rounds are given.
    if (!in_turn_ && std::exchange(rounds_to_give, false)) give_rounds_in_vain(fits, now);
    ++turns_given_;
    Flow& flow = *turns_.front();
    Entry* const entry = first_that_fits(flow, fits);
    Entry& wanted = wanted_of(flow, fits);
    if (!in_turn_ && flow.credit < cost(wanted)) flow.credit += flow.earns();
    in_turn_ = true;
    if (flow.credit < cost(wanted)) continue;
    if (!entry) {
      pass_over(wanted, now);
      continue;
    }
    // Beyond a turn's, credit was gathered for a longer request, and not for those that go in its place.
    flow.credit = std::min(flow.credit - cost(*entry), flow.earns());
    return taken(*entry);
  }
}

std::pair<WaitTicket, WaitingRequest> WaitingQueue::push_out(Bound bound) {
  const auto& lengths = bound == Bound::requests ? by_requests_ : by_bytes_;
  Flow& flow = lengths.empty() ? front_of_queue_ : *lengths.rbegin()->flow;
  Entry& newest = *flow.entries.back();
  const WaitTicket ticket = newest.ticket;
  return {ticket, take_out(newest)};
}

const WaitingRequest* WaitingQueue::find(WaitTicket ticket) const {
  const auto found = entries_.find(ticket);
  return found == entries_.end() ? nullptr : &found->second->request;
}

std::optional<Moment> WaitingQueue::oldest() const {
  if (entries_.empty()) return std::nullopt;
  return entries_.begin()->second->request.since;
}

Work WaitingQueue::of(std::uint64_t key) const {
  const auto found = flows_.find(key);
  return found == flows_.end() ? Work{} : found->second->work();
}

Work WaitingQueue::of_others(std::uint64_t key, const Work& most_of_each) const {
  Work sum = front_of_queue_.work();
  sum.add(work_.of_others(of(key), most_of_each));
  return sum;
}

/// In the meantime the requests of another key cost no more than those of this one that wait, by their shares, up to a
/// turn. The key's own requests are within that.
Tokens WaitingQueue::ahead_of_newest(std::uint64_t key) const {
  const auto found = flows_.find(key);
  const Flow& own = found == flows_.end() ? beyond_ : *found->second;
  const double turns = own.cost_by_share() + double{quantum};
  return front_of_queue_.tokens + static_cast<Tokens>(std::llround(tokens_by_share_.capped_at(turns)));
}

}  // namespace weir::balancer
