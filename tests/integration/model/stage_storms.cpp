// The storms that come over a stage from outside of its settings: processes that stop, crowds, sieges and floods.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/integration/model/invariants.hpp"
#include "tests/integration/peers/key_changer.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::model {
namespace {

using namespace integration;
using namespace std::chrono_literals;

/// A replica that is out for its silence comes back after 10 s, if its door answers.
constexpr auto stays_out = 13s;
constexpr std::size_t mib = 1024 * 1024;
constexpr std::size_t most_buffered = 16 * mib;
constexpr std::size_t most_returns = 6;

/// A client of a crowd, which comes back when it is told.
struct Returning {
  unsigned status = 0;
  std::size_t returns = 0;
  bool knows_when = true;
};

Returning ask_and_come_back(std::uint16_t port, const std::string& bytes) {
  Returning one;
  for (;; ++one.returns) {
    const auto got = fetch(port, bytes);
    one.status = got.status;
    if ((got.status != 429 && got.status != 503) || one.returns == most_returns) return one;
    const auto when = got.head.field("retry-after-ms");
    one.knows_when = when.has_value() && got.head.has("retry-after");
    if (!one.knows_when) return one;
    std::this_thread::sleep_for(std::chrono::milliseconds(std::stoul(*when)));
  }
}

std::string of_length(std::size_t length, const std::string& fields) {
  return "POST " + std::string(chat) + " HTTP/1.1\r\nHost: a\r\n" + fields +
         "Content-Type: application/json\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n";
}

std::string simulated_body(unsigned tokens, bool streams) {
  return R"({"model":"s","messages":[{"role":"user","content":"Hi"}],"max_tokens":)" + std::to_string(tokens) +
         (streams ? R"(,"stream":true})" : "}");
}

}  // namespace

bool Stage::storm(const Operation& step) {
  switch (step.verb) {
    case Verb::stop_process:
      return stop_process(step);
    case Verb::go_on:
      return go_on();
    case Verb::come_back:
      return come_back(step);
    case Verb::besiege:
      return besiege(step);
    case Verb::change_keys:
      return change_keys();
    default:
      return flood(step);
  }
}

/// Returns the header fields of a client whom no limit of a key's holds back; absent if there is none.
std::optional<std::string> Stage::free_fields(unsigned a) const {
  if (!model_.needs_keys) return "";
  for (std::size_t i = 0; i < model_.keys.size(); ++i)
    if (const auto& key = model_.keys[(a + i) % model_.keys.size()]; key.most == 0 && !key.narrow)
      return bearer(key.secret());
  return {};
}

std::string Stage::stopped_and_out() const {
  return stopped_ && stopped_is_out_ ? "s" + std::to_string(*stopped_) : "";
}

/// Requests of which a stopped replica has shown nothing end elsewhere, and the replica is out by then.
bool Stage::stop_process(const Operation& step) {
  const auto fields = free_fields(step.a);
  const bool all_are_up = is_up("s0") && is_up("s1");
  if (stopped_ || bypassed_ || !fields || !all_are_up) return false;
  stopped_ = step.a % outside_.processes.size();
  const auto name = "s" + std::to_string(*stopped_);
  were_stopped_.insert(name);
  outside_.processes[*stopped_].process().send(SIGSTOP);
  std::vector<std::thread> clients;
  std::atomic<std::size_t> served = 0;
  const auto bytes = post(chat, simulated_body(5, step.b % 2 == 0), *fields);
  const std::size_t all = step.b + 2;
  for (std::size_t i = 0; i < all; ++i)
    clients.emplace_back([&] {
      try {
        served += ask_and_come_back(door(), bytes).status == 200;
      } catch (const std::exception&) {  // It is not served.
      }
    });
  for (auto& client : clients) client.join();
  if (served != all)
    throw Violation("I11: " + std::to_string(all - served) + " of " + std::to_string(all) +
                    " requests are not served while " + name + " is stopped");
  // Where it had none of them, nothing has shown how it is.
  if (look([&] { return !takes_requests(name); }, 2s)) stopped_is_out_ = Clock::now();
  return stopped_is_out_.has_value();
}

bool Stage::go_on() {
  if (!stopped_) return false;
  const auto name = stopped_and_out();
  if (!name.empty() && look([&] { return takes_requests(name); },
                            std::chrono::ceil<std::chrono::milliseconds>(*stopped_is_out_ + stays_out - Clock::now())))
    throw Violation("I7: " + name + " is stopped, and is in again");
  outside_.processes[*stopped_].process().send(SIGCONT);
  stopped_.reset();
  stopped_is_out_.reset();
  return true;
}

/// A client that comes back when it is told is served. The run adds up how often that is so at once.
bool Stage::come_back(const Operation& step) {
  const auto fields = free_fields(step.a);
  if (stopped_ || !fields || !is_up("s0") || !is_up("s1")) return false;
  const auto bytes = post(chat, simulated_body(20, false), *fields);
  std::vector<Returning> all(12 + step.b);
  std::vector<std::thread> clients;
  for (auto& one : all)
    clients.emplace_back([&one, &bytes, port = door()] {
      try {
        one = ask_and_come_back(port, bytes);
      } catch (const std::exception&) {  // It has no answer.
      }
    });
  for (auto& client : clients) client.join();
  std::size_t told = 0;
  for (const auto& one : all) {
    if (!one.knows_when)
      throw Violation("I12: a client gets " + std::to_string(one.status) + " and is not told when to come back");
    if (one.status != 200)
      throw Violation("I12: a client gets " + std::to_string(one.status) + ", and came back when it was told " +
                      std::to_string(one.returns) + " times");
    told += one.returns > 0;
    outside_.served_then += one.returns == 1;
  }
  outside_.told_to_return += told;
  return told > 0;
}

/// Strangers hold what they can get of the memory, and the others are served all the same.
bool Stage::besiege(const Operation& step) {
  const auto fields = free_fields(step.a);
  if (!fields) return false;
  std::vector<Socket> strangers;
  const auto come = [&](std::size_t number, const std::string& bytes) {
    for (std::size_t i = 0; i < number; ++i) {
      strangers.push_back(Socket::connect(door()));
      try {
        strangers.back().send(bytes);
      } catch (const PeerGone&) {  // It was refused.
      }
    }
  };
  const auto before = page().metrics.sum("weir_limit_hits_total", {{"limit", "buffer_memory"}});
  const std::string body(mib - 64, 'x');
  switch (step.b % 3) {
    case 0:
      come(model_.speaks_tls ? 40 : 300,
           "POST " + std::string(chat) + " HTTP/1.1\r\nHost: a\r\nX-Long: " + std::string(60 * 1024, 'x'));
      break;
    case 1:
      come(20, of_length(mib, model_.needs_keys ? bearer("secret-of-nobody") : "") + body);
      break;
    default:  // A key that is right holds memory, too.
      come(20, of_length(mib, *fields) + body);
  }
  double most = 0;
  for (unsigned i = 0; i < 3; ++i) {
    const auto status = fetch(door(), post(chat, simulated_body(2, false), *fields)).status;
    const auto now = page().metrics;
    most = std::max(most, now.sum("weir_buffer_memory_bytes"));
    if (most > most_buffered) throw Violation("I9: buffers hold " + std::to_string(most) + " bytes");
    if (status != 200) throw Violation("I13: a client in a siege gets " + std::to_string(status));
  }
  const auto hits = page().metrics.sum("weir_limit_hits_total", {{"limit", "buffer_memory"}}) - before;
  return hits > 0 || most > mib;
}

bool Stage::change_keys() {
  if (!model_.speaks_tls) return false;
  KeyChanger changer(weir_->port(), 5000);
  if (!changer.is_broken_off()) throw Violation("I13: a client changes its keys 5,000 times");
  if (fetch(door(), get("/health"), "GET").status != 200) throw Violation("I13: /health is not answered 200");
  return true;
}

/// Each stream is begun, and each is counted once its client has left.
bool Stage::flood(const Operation& step) {
  const auto fields = free_fields(step.a);
  if (!fields || model_.speaks_tls) return false;
  const auto streams = 250 * (step.b % 8 + 1);
  const auto in_flight = [this] { return page().metrics.sum("weir_requests_in_flight", {{"replica", "still"}}); };
  try {
    const StillClients clients(door(), streams, post(chat, chat_body("Hi", "f"), *fields));
    flooded_ += streams;
    if (in_flight() != streams)
      throw Violation("I5: " + std::to_string(streams) + " streams are under way, and weir counts " +
                      std::to_string(in_flight()));
    memory_is_bounded(*this);
  } catch (const std::runtime_error& error) {
    if (dynamic_cast<const Violation*>(&error) != nullptr) throw;
    throw Violation(std::string("I10: in a flood ") + error.what());
  }
  if (!look([&] { return in_flight() == 0; }, at_most))
    throw Violation("I5: the clients of a flood have left, and " + std::to_string(in_flight()) + " are in flight");
  return true;
}

}  // namespace weir::model
