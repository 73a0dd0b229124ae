#include "balancer/waiting_queue.hpp"

#include <algorithm>
#include <limits>

namespace weir::balancer {

namespace {

/// The key of the flow that keys beyond WaitingQueue::most_keys share. Keys are hashes.
constexpr std::uint64_t shared_key = std::numeric_limits<std::uint64_t>::max();

}  // namespace

Tokens WaitingQueue::cost(const WaitingRequest& request) {
  return std::max(least_cost, request.uncached() + request.output_cost);
}

std::int64_t WaitingQueue::cost(const Entry& entry) { return static_cast<std::int64_t>(cost(entry.request)); }

std::int64_t WaitingQueue::Flow::earns() const {
  return std::max<std::int64_t>(1, std::llround(share * double{quantum}));
}

std::int64_t WaitingQueue::Flow::turns_to(std::int64_t price) const {
  return credit >= price ? 0 : (price - credit + earns() - 1) / earns();
}

WaitingQueue::Flow& WaitingQueue::flow_for(const WaitingRequest& request) {
  if (request.front_of_queue) return front_of_queue_;
  std::uint64_t key = request.fair_key;
  auto found = flows_.find(key);
  if (found == flows_.end() && flows_.size() >= most_keys) found = flows_.find(key = shared_key);
  if (found == flows_.end()) {
    found = flows_.emplace(key, turns_.emplace(turns_.end())).first;
    found->second->key = key;
  }
  Flow& flow = *found->second;
  if (key != shared_key) flow.share = request.share;
  return flow;
}

WaitTicket WaitingQueue::push(WaitingRequest request) {
  const WaitTicket ticket = ++tickets_;
  Flow& flow = flow_for(request);
  tokens_ += request.uncached();
  bytes_ += request.bytes;
  flow.tokens += request.uncached();
  flow.cost += cost(request);
  flow.bytes += request.bytes;
  prompts_.insert(request.uncached());
  const auto added = entries_.emplace_hint(entries_.end(), ticket, Entry{ticket, &flow, std::move(request)});
  flow.entries.emplace_hint(flow.entries.end(), ticket, &added->second);
  return ticket;
}

WaitingRequest WaitingQueue::take_out(Entry& entry) {
  const WaitTicket ticket = entry.ticket;
  Flow& flow = *entry.flow;
  if (entry.passed) passed_.erase({*entry.passed, ticket});
  WaitingRequest request = std::move(entry.request);
  entries_.erase(ticket);
  flow.entries.erase(ticket);
  prompts_.erase(prompts_.find(request.uncached()));
  tokens_ -= request.uncached();
  bytes_ -= request.bytes;
  flow.tokens -= request.uncached();
  flow.cost -= cost(request);
  flow.bytes -= request.bytes;
  if (&flow == &front_of_queue_ || !flow.entries.empty()) return request;
  // A flow that has nothing to send loses its place and its credit.
  if (&turns_.front() == &flow) in_turn_ = false;
  const auto found = flows_.find(flow.key);
  turns_.erase(found->second);
  flows_.erase(found);
  return request;
}

std::optional<WaitingRequest> WaitingQueue::leave(WaitTicket ticket) {
  const auto found = entries_.find(ticket);
  if (found == entries_.end()) return std::nullopt;
  return take_out(found->second);
}

WaitingRequest WaitingQueue::take(WaitTicket ticket) {
  Entry& entry = entries_.at(ticket);
  entry.flow->credit -= cost(entry);
  return take_out(entry);
}

WaitingRequest WaitingQueue::take_in_turn(WaitTicket ticket, Moment now) {
  Entry& entry = entries_.at(ticket);
  Flow& flow = *entry.flow;
  if (Entry& oldest = *flow.entries.begin()->second; &oldest != &entry) pass_over(oldest, now);
  // Beyond a turn's, credit was gathered for a longer request, and not for those that go in its place.
  if (&flow != &front_of_queue_) flow.credit = std::min(flow.credit - cost(entry), flow.earns());
  return take_out(entry);
}

/// Notes the oldest request of the flow that fits. The search runs once a look.
void WaitingQueue::look(Flow& flow, const Fits& fits) {
  if (flow.looked == looks_) return;
  flow.looked = looks_;
  flow.fitting = nullptr;
  std::size_t left = looked_at;
  for (auto one = flow.entries.begin(); one != flow.entries.end() && left > 0; ++one, --left) {
    if (!fits(one->second->request)) continue;
    flow.fitting = one->second;
    return;
  }
}

/// Gives all flows as many turns as they need before the first of them can pay for a request that fits, but for the
/// last. In these nobody would go.
void WaitingQueue::give_rounds_in_vain(Moment now) {
  std::int64_t rounds = std::numeric_limits<std::int64_t>::max();
  for (const Flow& flow : turns_)
    if (flow.fitting != nullptr) rounds = std::min(rounds, flow.turns_to(cost(*flow.fitting)) - 1);
  if (rounds <= 0) return;
  for (Flow& flow : turns_) {
    Entry& wanted = flow.wanted();
    flow.credit += std::min(rounds, flow.turns_to(cost(wanted))) * flow.earns();
    if (&wanted != flow.fitting && flow.credit >= cost(wanted)) pass_over(wanted, now);
  }
}

void WaitingQueue::pass_over(Entry& entry, Moment now) {
  if (entry.passed) return;
  entry.passed = now;
  passed_.emplace(now, entry.ticket);
}

void WaitingQueue::end_turn() {
  turns_.splice(turns_.end(), turns_, turns_.begin());
  in_turn_ = false;
}

std::optional<WaitingQueue::Turn> WaitingQueue::next(const Fits& fits, Moment now) {
  ++looks_;
  const auto turn_of = [](const Entry& entry) { return Turn{entry.ticket, entry.request}; };
  look(front_of_queue_, fits);
  if (front_of_queue_.fitting != nullptr) return turn_of(*front_of_queue_.fitting);
  if (turns_.empty()) return std::nullopt;
  const auto can_pay = [](const Flow& flow) { return flow.fitting != nullptr && flow.credit >= cost(*flow.fitting); };
  look(turns_.front(), fits);
  if (!in_turn_ || !can_pay(turns_.front())) {
    for (Flow& flow : turns_) look(flow, fits);
    if (std::ranges::none_of(turns_, [](const Flow& flow) { return flow.fitting != nullptr; })) return std::nullopt;
  }

  if (!front_of_queue_.entries.empty()) pass_over(*front_of_queue_.entries.begin()->second, now);
  for (bool rounds_to_give = true;; end_turn()) {
    // A turn that has begun ends before rounds are given.
    if (!in_turn_ && std::exchange(rounds_to_give, false)) give_rounds_in_vain(now);
    Flow& flow = turns_.front();
    Entry& wanted = flow.wanted();
    if (!in_turn_ && flow.credit < cost(wanted)) flow.credit += flow.earns();
    in_turn_ = true;
    if (flow.credit < cost(wanted)) continue;
    if (flow.fitting != nullptr) return turn_of(*flow.fitting);
    pass_over(wanted, now);
  }
}

std::pair<WaitTicket, WaitingRequest> WaitingQueue::push_out(Bound bound) {
  const auto newest_of = [](const Flow& flow) { return flow.entries.rbegin()->first; };
  const auto length = [&](const Flow& flow) {
    return std::pair(bound == Bound::requests ? flow.entries.size() : flow.bytes, newest_of(flow));
  };
  const WaitTicket ticket = newest_of(turns_.empty() ? front_of_queue_ : *std::ranges::max_element(turns_, {}, length));
  return {ticket, take_out(entries_.at(ticket))};
}

const WaitingRequest* WaitingQueue::find(WaitTicket ticket) const {
  const auto found = entries_.find(ticket);
  return found == entries_.end() ? nullptr : &found->second.request;
}

QueueFigures WaitingQueue::figures(Moment now) const {
  const double oldest = entries_.empty() ? 0 : metrics::seconds(now - entries_.begin()->second.request.since);
  return {entries_.size(), tokens_, bytes_, oldest};
}

/// In the meantime the requests of another key cost no more than those of this one, by their shares, up to a turn. The
/// key's own requests are within that.
Tokens WaitingQueue::ahead_of(std::uint64_t key) const {
  auto found = flows_.find(key);
  if (found == flows_.end()) found = flows_.find(shared_key);
  const double turns = (found == flows_.end() ? 0 : found->second->cost_by_share()) + double{quantum};
  double tokens = 0;
  for (const Flow& flow : turns_)
    tokens += std::min(1.0, turns / flow.cost_by_share()) * static_cast<double>(flow.tokens);
  return front_of_queue_.tokens + static_cast<Tokens>(std::llround(tokens));
}

}  // namespace weir::balancer
