// The clients of a stage.
#include <algorithm>
#include <utility>

#include "tests/integration/model/stage.hpp"
#include "tests/integration/peers/streams.hpp"

namespace weir::model {

using namespace integration;
using namespace std::chrono_literals;

Answer Stage::ask(Request request) {
  const auto& client = *clients_.emplace_back(std::make_unique<Client>(door(), std::move(request)));
  wait_for_end(client, "the answer to " + client.asked().id);
  return client.answer();
}

void Stage::wait_for_end(const Client& client, const std::string& what) const {
  if (!look([&] { return client.has_ended(); }, at_most))
    throw Violation("I10: waited in vain for " + what + " (" + client.asked().what + ")");
}

Request Stage::request(const Operation& step, const char* what) {
  Request request{.id = new_id(), .what = what, .model = model_name(step.b)};
  if (!model_.needs_keys) return request;
  const auto& key = model_.key(step.a);
  request.key = key.name;
  request.credential = key.secret();
  request.is_denied = key.narrow && request.model != "n";
  return request;
}

bool Stage::ask_as_client(const Operation& step) {
  switch (step.verb) {
    case Verb::hold:
      return begin({request(step, "hold")});
    case Verb::ask: {
      auto one = request(step, "short");
      one.streams = step.b % 2 == 0;
      return begin({one});
    }
    case Verb::ask_badly:
      for (unsigned i = 0; i < step.b; ++i) {
        auto one = request(step, "bad");
        one.model = "m";
        one.is_denied = model_.needs_keys && model_.key(step.a).narrow;
        static_cast<void>(begin({one}));
      }
      return begin({request({step.verb, step.a, 0}, "bad")});
    case Verb::ask_slowly:
      clients_.push_back(std::make_unique<Client>(door(), request({step.verb, step.a, 0}, "slow")));
      return true;
    case Verb::crowd: {
      std::vector<Request> all;
      for (unsigned i = 0; i < step.b % 6 + 2; ++i)
        all.push_back(request({step.verb, step.a, 0}, i % 2 == 0 ? "hold" : "bad"));
      return begin(std::move(all));
    }
    case Verb::stall: {
      auto one = request(step, "stall");
      one.stalls = true;
      clients_.push_back(std::make_unique<Client>(door(), one));
      return true;
    }
    case Verb::pipeline: {
      constexpr std::size_t times = 40;
      HttpClient client(door());
      std::string all;
      for (std::size_t i = 0; i < times; ++i) all += get("/health");
      client.send(all);
      for (std::size_t i = 0; i < times; ++i)
        if (client.response("GET").status != 200) throw Violation("I1: /health is not answered 200");
      return true;
    }
    default:
      return false;
  }
}

bool Stage::begin(std::vector<Request> requests) {
  const auto first = clients_.size();
  std::map<std::string, std::size_t> open_before;
  for (const auto& key : model_.keys)
    open_before[key.name] = under_way([&](const Client& one) { return one.asked().key == key.name; });
  for (auto& one : requests) clients_.push_back(std::make_unique<Client>(door(), std::move(one)));
  // Each has its answer, or waits in weir, or hangs where a machine does.
  const auto settled = [&] {
    return std::all_of(clients_.begin() + static_cast<std::ptrdiff_t>(first), clients_.end(),
                       [](const auto& one) { return one->asked().what == "hold" ? !one->waits() : one->has_ended(); });
  };
  const bool some_are_ill =
      std::ranges::any_of(machines_, [](const auto& one) { return one->is_hung() || one->is_dead(); });
  if (!look(settled, 300ms) &&
      !look([&] { return settled() || page().metrics.sum("weir_requests_waiting") > 0; }, some_are_ill ? 1s : at_most))
    if (!some_are_ill) throw Violation("I10: " + clients_[first]->asked().id + " has no answer and does not wait");
  for (const auto& key : model_.keys) {
    if (!model_.needs_keys || key.most == 0) continue;
    std::size_t admitted = 0;
    for (auto at = first; at < clients_.size(); ++at) {
      const auto& client = *clients_[at];
      if (client.asked().key != key.name) continue;
      admitted += client.is_under_way();
      if (open_before[key.name] >= key.most && client.has_ended() && client.answer().status != 429 && !key.narrow)
        throw Violation("I1: " + client.asked().id + " gets " + std::to_string(client.answer().status) +
                        " and not 429: key " + key.name + " has all that its max_in_flight allows under way");
    }
    if (admitted > 0 && open_before[key.name] + admitted > key.most)
      throw Violation("I4: key " + key.name + " has " + std::to_string(open_before[key.name] + admitted) +
                      " requests under way, its max_in_flight is " + std::to_string(key.most));
  }
  return std::any_of(clients_.begin() + static_cast<std::ptrdiff_t>(first), clients_.end(),
                     [](const auto& one) { return one->waits() || !one->replica().empty(); });
}

bool Stage::end_stream(unsigned a, bool leaves) {
  std::vector<Client*> open;
  for (const auto& one : clients_)
    if (one->asked().what == "hold" && !one->has_ended()) open.push_back(one.get());
  if (open.empty()) return false;
  auto& client = *open[a % open.size()];
  leaves ? client.leave() : truth_.release(client.asked().id);
  if (leaves || (client.is_under_way() && was_always_well(client.answer().replica)))
    wait_for_end(client, "the end of the stream " + client.asked().id);
  return true;
}

}  // namespace weir::model
