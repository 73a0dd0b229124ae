#include "balancer/waiting_queue.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <utility>

namespace weir::balancer {

Tokens WaitingQueue::cost(const WaitingRequest& request) {
  return std::max(least_cost, request.uncached() + request.output_cost);
}

std::int64_t WaitingQueue::cost(const Entry& entry) { return static_cast<std::int64_t>(cost(entry.request)); }

WaitTicket WaitingQueue::Ticket::operator()(const Entry& entry) const { return entry.ticket; }

WaitingQueue::Size::type WaitingQueue::Size::operator()(const Entry& entry) const {
  return {entry.request.uncached(), entry.ticket};
}

std::uint64_t WaitingQueue::Key::operator()(const Flow& flow) const { return flow.key; }

WaitingQueue::Length WaitingQueue::Requests::operator()(const Flow& flow) const {
  return {flow.requests, flow.entries.back().ticket};
}

WaitingQueue::Length WaitingQueue::Bytes::operator()(const Flow& flow) const {
  return {flow.bytes, flow.entries.back().ticket};
}

WaitingQueue::~WaitingQueue() {
  while (!entries_.empty()) take_out(*entries_.begin());
}

WaitingQueue::GroupKey WaitingQueue::group_of(const WaitingRequest& request, const WaitingRequest::Fit& fit) {
  // A replica may have no room for one client or model. Clients make up both, so that a flow has at most 64 such parts.
  const std::uint64_t address = (*request.caller.client ^ request.caller.topic) % 64;
  // A replica that does not hold what another one does has the whole prompt to compute.
  return {request.tried, fit, std::bit_width(request.uncached()), std::bit_width(request.prompt),
          request.home, address};
}

const WaitingQueue::Flow* WaitingQueue::find_flow(std::uint64_t key) const {
  const auto found = flows_.find(key);
  return found == flows_.end() ? nullptr : &*found;
}

WaitTicket WaitingQueue::push(WaitingRequest request) {
  auto entry = std::make_unique<Entry>();
  std::unique_ptr<Flow> made;
  Flow* flow = &front_of_queue_;
  if (!request.front_of_queue) {
    const auto found = flows_.find(request.key);
    if (found != flows_.end()) {
      flow = &*found;
    } else if (keys_ >= most_keys) {
      flow = &beyond_;
    } else {
      made = std::make_unique<Flow>();
      made->key = request.key;
      flow = made.get();
    }
  }
  entry->group = flow->groups.try_emplace(group_of(request, request.fit)).first;

  // Nothing fails from here on.
  if (made) {
    flows_.insert(*made.release());
    ++keys_;
  }
  if (flow != &front_of_queue_) {
    if (flow->requests == 0)
      turns_.push_back(*flow);
    else
      forget_measure(*flow);
    if (flow != &beyond_) flow->share = request.share;
  }
  ++size_;
  ++flow->requests;
  tokens_ += request.uncached();
  bytes_ += request.bytes;
  flow->tokens += request.uncached();
  flow->cost += cost(request);
  flow->bytes += request.bytes;

  Entry& added = *entry.release();
  added.ticket = added.passed.ticket = ++tickets_;
  added.flow = flow;
  added.request = std::move(request);
  entries_.insert(entries_.end(), added);
  by_prompt_.insert(added);
  flow->entries.push_back(added);
  add_to_group(added);
  if (flow != &front_of_queue_) measure(*flow);
  return tickets_;
}

void WaitingQueue::add_to_group(Entry& entry) noexcept {
  Group& group = entry.group->second;
  group.by_age.insert(group.by_age.end(), entry);
  group.by_prompt.insert(entry);
}

void WaitingQueue::regroup(const std::function<WaitingRequest::Fit(const WaitingRequest&)>& fit_of) {
  std::map<Flow*, Groups> regrouped;
  for (Entry& entry : entries_) {
    const auto fit = fit_of(entry.request);
    entry.next_group = regrouped[entry.flow].try_emplace(group_of(entry.request, fit)).first;
  }
  // Nothing fails from here on.
  for (Entry& entry : entries_) {
    entry.TreeHook<InGroup>::unlink();
    entry.TreeHook<InGroupBySize>::unlink();
    entry.group = entry.next_group;
    entry.request.fit = std::get<WaitingRequest::Fit>(entry.group->first);
    add_to_group(entry);
  }
  for (auto& [flow, groups] : regrouped) flow->groups.swap(groups);
}

void WaitingQueue::measure(Flow& flow) noexcept {
  by_requests_.insert(flow);
  by_bytes_.insert(flow);
}

/// Comes before any change to the flow: its places in the trees go by what it has.
void WaitingQueue::forget_measure(Flow& flow) noexcept {
  flow.TreeHook<Requests>::unlink();
  flow.TreeHook<Bytes>::unlink();
}

WaitingRequest WaitingQueue::take_out(Entry& entry) noexcept {
  Flow& flow = *entry.flow;
  if (&flow != &front_of_queue_) forget_measure(flow);
  const auto group = entry.group;
  WaitingRequest request = std::move(entry.request);
  delete &entry;  // Its hooks take it out of its lists.
  if (group->second.by_age.empty()) flow.groups.erase(group);
  --size_;
  --flow.requests;
  tokens_ -= request.uncached();
  bytes_ -= request.bytes;
  flow.tokens -= request.uncached();
  flow.cost -= cost(request);
  flow.bytes -= request.bytes;
  if (&flow == &front_of_queue_) return request;
  if (flow.requests > 0)
    measure(flow);
  else
    drop(flow);
  return request;
}

/// A flow that has nothing to send loses its place and its credit.
void WaitingQueue::drop(Flow& flow) noexcept {
  if (&turns_.front() == &flow) in_turn_ = false;
  if (&flow != &beyond_) {
    --keys_;
    delete &flow;  // Its hooks take it out of its lists.
    return;
  }
  flow.ListHook<InTurns>::unlink();
  flow.credit = 0;
}

WaitingQueue::Entry& WaitingQueue::entry_of(WaitTicket ticket) { return *entries_.find(ticket); }

std::optional<WaitingRequest> WaitingQueue::leave(WaitTicket ticket) noexcept {
  const auto found = entries_.find(ticket);
  if (found == entries_.end()) return std::nullopt;
  return take_out(*found);
}

WaitingRequest WaitingQueue::take(WaitTicket ticket) noexcept {
  Entry& entry = entry_of(ticket);
  entry.flow->credit -= cost(entry);
  return take_out(entry);
}

WaitingRequest WaitingQueue::take_in_turn(WaitTicket ticket, Moment now) noexcept {
  Entry& entry = entry_of(ticket);
  Flow& flow = *entry.flow;
  if (Entry& oldest = flow.entries.front(); &oldest != &entry) pass_over(oldest, now);
  // Beyond a turn's, credit was gathered for a longer request, and not for those that go in its place.
  if (&flow != &front_of_queue_) flow.credit = std::min(flow.credit - cost(entry), flow.earns());
  return take_out(entry);
}

/// Notes the oldest request of the flow that fits, or one of its size. The search runs once a look.
void WaitingQueue::look(Flow& flow, const Fits& fits) {
  if (flow.looked == looks_) return;
  flow.looked = looks_;
  flow.fitting = nullptr;
  const auto look_at = [&](Entry& entry) {
    if (flow.fitting && flow.fitting->ticket < entry.ticket) return true;
    if (!fits(entry.request)) return false;
    flow.fitting = &entry;
    return true;
  };
  for (auto& [key, group] : flow.groups) {
    Entry &oldest = *group.by_age.begin(), &shortest = *group.by_prompt.begin();
    if (!look_at(oldest) && &shortest != &oldest) look_at(shortest);
  }
}

/// Returns the request that the flow spends its credit on: its oldest, if none fits.
WaitingQueue::Entry& WaitingQueue::wanted_of(Flow& flow) noexcept {
  return flow.fitting ? *flow.fitting : flow.entries.front();
}

/// Gives all flows as many turns as they need before the first of them can pay for a request that fits, but for the
/// last. In these nobody would go.
void WaitingQueue::give_rounds_in_vain(Moment now) noexcept {
  std::int64_t rounds = std::numeric_limits<std::int64_t>::max();
  for (const Flow& flow : turns_)
    if (flow.fitting) rounds = std::min(rounds, flow.turns_to(cost(*flow.fitting)) - 1);
  if (rounds <= 0) return;
  for (Flow& flow : turns_) {
    Entry& wanted = wanted_of(flow);
    flow.credit += std::min(rounds, flow.turns_to(cost(wanted))) * flow.earns();
    if (&wanted != flow.fitting && flow.credit >= cost(wanted)) pass_over(wanted, now);
  }
}

void WaitingQueue::pass_over(Entry& entry, Moment now) noexcept {
  if (entry.passed.is_linked()) return;
  entry.passed.since = now;
  passed_.push_back(entry.passed);
}

void WaitingQueue::end_turn() noexcept {
  turns_.splice(turns_.end(), turns_, turns_.begin());
  in_turn_ = false;
}

std::optional<WaitingQueue::Turn> WaitingQueue::next(const Fits& fits, Moment now) {
  ++looks_;
  const auto turn_of = [](const Entry& entry) { return Turn{entry.ticket, entry.request}; };
  look(front_of_queue_, fits);
  if (front_of_queue_.fitting) return turn_of(*front_of_queue_.fitting);
  if (turns_.empty()) return std::nullopt;
  const auto can_pay = [](const Flow& flow) { return flow.fitting && flow.credit >= cost(*flow.fitting); };
  look(turns_.front(), fits);
  if (!in_turn_ || !can_pay(turns_.front())) {
    for (Flow& flow : turns_) look(flow, fits);
    if (std::ranges::none_of(turns_, [](const Flow& flow) { return flow.fitting != nullptr; })) return std::nullopt;
  }

  // Nothing fails from here on.
  if (!front_of_queue_.entries.empty()) pass_over(front_of_queue_.entries.front(), now);
  for (bool rounds_to_give = true;; end_turn()) {
    // A turn that has begun ends before rounds are given.
    if (!in_turn_ && std::exchange(rounds_to_give, false)) give_rounds_in_vain(now);
    ++turns_given_;
    Flow& flow = turns_.front();
    Entry& wanted = wanted_of(flow);
    if (!in_turn_ && flow.credit < cost(wanted)) flow.credit += flow.earns();
    in_turn_ = true;
    if (flow.credit < cost(wanted)) continue;
    if (flow.fitting) return turn_of(*flow.fitting);
    pass_over(wanted, now);
  }
}

std::pair<WaitTicket, WaitingRequest> WaitingQueue::push_out(Bound bound) noexcept {
  Flow* flow = &front_of_queue_;
  if (!turns_.empty()) flow = bound == Bound::requests ? &*by_requests_.rbegin() : &*by_bytes_.rbegin();
  Entry& newest = flow->entries.back();
  const WaitTicket ticket = newest.ticket;
  return {ticket, take_out(newest)};
}

const WaitingRequest* WaitingQueue::find(WaitTicket ticket) const {
  const auto found = entries_.find(ticket);
  return found == entries_.end() ? nullptr : &found->request;
}

std::optional<Moment> WaitingQueue::oldest() const {
  if (entries_.empty()) return std::nullopt;
  return entries_.begin()->request.since;
}

Tokens WaitingQueue::shortest() const { return by_prompt_.begin()->request.uncached(); }

/// In the meantime the requests of another key cost no more than those of this one, by their shares, up to a turn. The
/// key's own requests are within that.
Tokens WaitingQueue::ahead_of(std::uint64_t key) const {
  const Flow* const found = find_flow(key);
  const double turns = (found ? *found : beyond_).cost_by_share() + double{quantum};
  double tokens = 0;
  for (const Flow& flow : turns_)
    tokens += std::min(1.0, turns / flow.cost_by_share()) * static_cast<double>(flow.tokens);
  return front_of_queue_.tokens + static_cast<Tokens>(std::llround(tokens));
}

}  // namespace weir::balancer
