// The steps of the pool "beside": its replicas treat one client, model, route or request otherwise, or one replica has
// a flaw for all. Well-behaved clients ask meanwhile (neighbours.hpp).
#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <thread>
#include <utility>

#include "tests/integration/model/invariants.hpp"
#include "tests/integration/model/neighbours.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::model {
namespace {

using namespace integration;
using namespace std::chrono_literals;

constexpr std::array words{"limited", "crowded", "invalid", "", "", "", "deadly", "numbing"};
std::string word_of(Odd odd) { return words[static_cast<std::size_t>(odd)]; }

constexpr std::array flaws{Flaw::none, Flaw::empty, Flaw::page, Flaw::asleep, Flaw::ill, Flaw::crashes};

/// A replica that is broken for all is out within this time, and clients see nothing of it for a while then.
constexpr auto out_within = 10s;
constexpr auto unseen_for = 3s;
/// Clients go on for a while behind what happens to one of them.
constexpr auto afterwards = 1500ms;
/// A replica may have refused a model 10 s ago that it has now.
constexpr auto found_within = 20s;
/// A process that crashes again and again may do it so often in this time, and starts anew in this one.
constexpr auto crashing_for = 8s;
constexpr std::size_t most_crashes = 3;
constexpr auto to_start = 500ms;
/// A client that is refused asks so long, with pauses.
constexpr auto refused_for = 3s;
constexpr auto between_refused = 50ms;
/// A request may cost two replicas, and a third where it was not alone and comes again.
constexpr std::size_t most_lost = 2, most_lost_again = 3;

std::string wish(const std::string& what, bool streams, const std::string& model = "b") {
  static std::atomic<unsigned> ids{0};
  auto body = chat_body("o" + std::to_string(++ids) + " " + what, model);
  if (!streams) body.replace(body.find("\"stream\":true"), 13, "\"stream\":false");
  return body;
}

}  // namespace

std::set<std::string> Stage::ill_beside() const {
  std::set<std::string> ill;
  for (std::size_t i = 0; i < model_.beside; ++i)
    if (machine(beside(i)).is_ill() || machine(beside(i)).is_dead()) ill.insert(beside(i).name);
  return ill;
}

std::size_t Stage::well_beside() const {
  std::size_t well = 0;
  const auto ill = ill_beside();
  for (std::size_t i = 0; i < model_.beside; ++i)
    well += !ill.contains(beside(i).name) && takes_requests(beside(i).name);
  return well;
}

std::size_t Stage::came_beside(const std::string& what) const {
  std::size_t came = 0;
  for (std::size_t i = 0; i < most_beside; ++i) came += machine(beside(i)).came(what);
  return came;
}

/// Each way has a client of its own: one that is limited stays so for a minute.
integration::Response Stage::ask_as_odd(Odd odd, const std::string& target, const std::string& body) const {
  const auto client = Neighbours::clients + static_cast<unsigned>(odd);
  return Neighbours::ask(door(), model_.needs_keys, client, target, body);
}

void Stage::end_struck() {
  for (std::size_t i = 0; i < model_.beside; ++i)
    if (beside_machine(i).is_ending()) beside_machine(i).kill();
}

bool Stage::single_out(const Operation& step) {
  const auto odd = static_cast<Odd>(step.b % words.size());
  const std::size_t at = step.a % (most_beside - 1);
  const bool is_poison = odd == Odd::deadly || odd == Odd::numbing;
  const bool needs_it = odd == Odd::nowhere || odd == Odd::adapter;
  const auto ill = ill_beside();
  if (model_.speaks_tls || bypassed_ || well_beside() < (is_poison ? 4 : 3) ||
      (needs_it && ill.contains(beside(at).name)))
    return false;
  Neighbours others(door(), model_.needs_keys);
  switch (odd) {
    case Odd::limited:
    case Odd::crowded:
    case Odd::invalid:
      be_refused(odd);
      break;
    case Odd::nowhere:
      poll_nowhere(at);
      break;
    case Odd::adapter:
      ask_for_adapter(at);
      break;
    case Odd::state:
      converse();
      break;
    default:
      send_poison(odd);
  }
  std::this_thread::sleep_for(afterwards);
  others.end();
  others_notice_nothing(others.seen(), ill, is_poison ? most_lost_again : 0);
  return true;
}

/// Ten requests of one client at a time, again and again. One that is invalid goes to a second replica at most: where
/// the first has lately refused what others answer.
void Stage::be_refused(Odd odd) {
  const std::string what = word_of(odd);
  const auto before = came_beside(what);
  const auto ill = ill_beside();
  const auto end = Clock::now() + refused_for;
  std::atomic<std::size_t> asked{0};
  const auto ask = [&] {
    do {
      const auto got = ask_as_odd(odd, chat, wish(word_of(odd), true));
      ++asked;
      const bool right = odd == Odd::invalid ? got.status == 200 && got.body.find("no such grammar") != got.body.npos
                                             : got.status == 429;
      if (!right && !ill.contains(got.head.field("x-weir-replica").value_or("")))
        throw Violation("I15: a request that is " + what + " gets " + std::to_string(got.status) + ": " + got.body);
      std::this_thread::sleep_for(between_refused);
    } while (Clock::now() < end);
  };
  std::vector<std::future<void>> all;
  for (int i = 0; i < 10; ++i) all.push_back(std::async(std::launch::async, ask));
  for (auto& one : all) one.get();
  if (const auto came = came_beside(what) - before; odd == Odd::invalid && came > 2 * asked)
    throw Violation("I15: " + std::to_string(asked) + " invalid requests went to replicas " + std::to_string(came) +
                    " times");
}

void Stage::poll_nowhere(std::size_t at) {
  auto& lacks = beside_machine(at);
  lacks.spoil(Flaw::none);
  lacks.lack_chats(true);
  for (unsigned n = 0; n < 100; ++n)
    static_cast<void>(ask_as_odd(Odd::nowhere, "/v1/embeddings", R"({"model":"b","input":"nothing"})"));
  std::this_thread::sleep_for(afterwards);
  lacks.lack_chats(false);
}

/// The adapter is found within seconds, and then each request for it is served.
void Stage::ask_for_adapter(std::size_t at) {
  constexpr unsigned in_a_row = 20;
  beside_machine(at).have_adapter(true);
  unsigned served = 0;
  const auto is_found = [&] {
    const auto got = ask_as_odd(Odd::adapter, chat, wish("talk", served % 2 == 0, "b-adapter"));
    served = got.status == 200 ? served + 1 : 0;
    return served == in_a_row;
  };
  const bool found = look(is_found, found_within);
  beside_machine(at).have_adapter(false);
  if (!found) throw Violation("I15: the adapter of " + beside(at).name + " is not found within 20 s");
}

void Stage::converse() {
  constexpr unsigned turns = 6;
  const auto have = [this](std::size_t replicas) {
    if (std::exchange(model_.beside, replicas) == replicas) return;
    model_.replicas_changed = true;
    reload();
  };
  have(most_beside - 1);
  std::array<std::string, 8> last;
  for (unsigned turn = 0; turn < turns; ++turn) {
    if (turn == turns / 2) have(most_beside);
    for (auto& id : last) {
      const auto previous = id.empty() ? "" : R"(,"previous_response_id":")" + id + '"';
      const auto got = ask_as_odd(Odd::state, "/v1/responses", R"({"model":"b","input":"go on")" + previous + "}");
      if (got.status != 200)
        throw Violation("I15: turn " + std::to_string(turn + 1) + " of a conversation gets " +
                        std::to_string(got.status) + ": " + got.body);
      // A replica with a flaw hands out no id, and the conversation begins anew.
      const auto from = std::min(got.body.find("resp_"), got.body.size());
      id = got.body.substr(from, got.body.find('"', from) - from);
    }
  }
}

/// The client's library would send it three times, unless it is told not to.
void Stage::send_poison(Odd odd) {
  const std::string what = word_of(odd);
  const auto lost = [&, before = came_beside(what)] { return came_beside(what) - before; };
  const auto body = wish(what, true);
  for (const auto most : {most_lost, most_lost_again, most_lost_again}) {
    auto answer = std::async(std::launch::async, [&] { return ask_as_odd(odd, chat, body); });
    while (answer.wait_for(5ms) != std::future_status::ready && lost() <= most) end_struck();
    end_struck();
    const auto has_cost = lost();
    if (has_cost > most)
      for (std::size_t i = 0; i < most_beside; ++i) beside_machine(i).mend();
    const auto got = answer.get();
    if (has_cost > most) throw Violation("I15: a request has cost " + std::to_string(has_cost) + " replicas");
    if (got.head.field("x-should-retry") != "false")
      throw Violation("I15: a request that cost " + std::to_string(has_cost) + " replicas gets " +
                      std::to_string(got.status) + ", and is not told to stay away: " + got.head.bytes);
  }
  for (std::size_t i = 0; i < most_beside; ++i)
    if (const auto name = beside(i).name; ill_beside().contains(name)) beside_machine(i).mend();
}

/// I16: a replica that is broken for all is out within seconds.
bool Stage::spoil(const Operation& step) {
  const std::size_t at = step.a % (most_beside - 1);
  const auto flaw = flaws[step.b % flaws.size()];
  const auto name = beside(at).name;
  auto& machine = beside_machine(at);
  const bool was_ill = machine.is_ill();
  if (flaw == Flaw::none || was_ill) {
    machine.mend();
    return was_ill;
  }
  const auto others_ill = ill_beside();
  if (model_.speaks_tls || bypassed_ || well_beside() < 4 || !takes_requests(name)) return false;
  machine.spoil(flaw);
  const auto came_before = machine.came("talk");
  Neighbours others(door(), model_.needs_keys);
  const auto begun = Clock::now();
  auto crashed_at = begun;
  std::size_t crashes = 0;
  const auto last_bad = [&] {
    auto last = begun;
    for (const auto& one : others.seen())
      if (!others_ill.contains(one.replica) && (!one.flaw.empty() || (flaw == Flaw::ill && one.replica == name)))
        last = one.at;
    return last;
  };
  const auto is_over = [&] {
    if (flaw != Flaw::crashes) return Clock::now() > last_bad() + unseen_for;
    if (machine.is_ending()) {
      ++crashes;
      machine.kill();
      crashed_at = Clock::now();
    }
    if (machine.is_dead() && Clock::now() > crashed_at + to_start) {
      machine.mend();
      machine.spoil(flaw);
    }
    return Clock::now() > begun + crashing_for;
  };
  const bool was_out = look(is_over, out_within);
  // weir had read its page before it slept.
  const auto woken = flaw == Flaw::asleep ? machine.came("talk") - came_before : 0;
  if (!was_out || flaw == Flaw::crashes || woken > 0) machine.mend();
  others.end();
  if (!was_out) throw Violation("I16: " + name + " is broken for all, and clients see it 10 s later");
  if (woken > 0) throw Violation("I16: " + name + " sleeps, and was sent " + std::to_string(woken) + " requests");
  if (crashes > most_crashes)
    throw Violation("I16: " + name + " crashes " + std::to_string(crashes) + " times in 8 s, and has its share again");
  return true;
}

}  // namespace weir::model
