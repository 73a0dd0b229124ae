#include "tests/integration/model/invariants.hpp"

#include "tests/integration/peers/streams.hpp"

namespace weir::model {
namespace {

using namespace integration;
using namespace std::chrono_literals;

constexpr std::size_t most_memory = 160 * 1024 * 1024;
/// A replica that has room takes who waits within milliseconds; on a busy machine it takes longer.
constexpr auto idle_for = 700ms;

/// Asks what weir answers itself, so that no replica matters.
unsigned status_with(Stage& stage, const std::string& key, const std::string& credential) {
  return stage.ask({.id = stage.new_id(), .key = key, .credential = credential, .target = "/no/such/path"}).status;
}

bool is(const Page& page, const std::string& replica, const char* state) {
  return page.metrics.sum("weir_replica_state", {{"replica", replica}, {"state", state}}) > 0;
}

void must_not_hold(const std::string& text, const char* secret, const std::string& where) {
  const auto at = text.find(secret);
  if (at == text.npos) return;
  const auto begin = text.rfind('\n', at) + 1;
  throw Violation("I3: a key stands in " + where + ": " + text.substr(begin, text.find('\n', at) - begin));
}

/// A replica of the first pool that has nothing to do and could take a request.
const Replica* idle_replica(Stage& stage, const Page& page) {
  for (const auto& one : stage.model().first) {
    const auto& machine = stage.machine(one);
    if (machine.was_always_well() && !one.drained && is(page, one.name, "up") &&
        page.metrics.sum("weir_requests_in_flight", {{"replica", one.name}}) == 0)
      return &one;
  }
  return nullptr;
}

void pool_limit_counts(Stage& stage) {
  const auto most = stage.model().pool_most;
  const auto began = stage.began_in_pool_since_changed();
  if (most != 0 && began > most)
    throw Violation("I4: the first pool has " + std::to_string(began) + " streams, its max_in_flight is " +
                    std::to_string(most));
}

}  // namespace

void only_who_may_enters(Stage& stage) {
  const auto& model = stage.model();
  constexpr unsigned within = 404, kept_out = 401;
  const auto expect = [&](unsigned wanted, const std::string& who, const std::string& key,
                          const std::string& credential) {
    const auto status = status_with(stage, key, credential);
    if (status == wanted || (status == 429 && wanted == within && !key.empty())) return;
    throw Violation("I1: " + who + " gets " + std::to_string(status) + ", the settings say " + std::to_string(wanted));
  };
  const auto of_strangers = model.needs_keys ? kept_out : within;
  expect(of_strangers, "a client without a key", "", "");
  if (!model.needs_keys) return;
  expect(of_strangers, "a client with a wrong key", "", "secret-of-nobody");
  for (const auto& secret : model.revoked) expect(of_strangers, "a client with a revoked key", "", secret);
  // A key that may have nothing but one model gets 403 for what has none.
  for (const auto& key : model.keys)
    if (!key.narrow) expect(within, "the client with key " + key.name, key.name, key.secret());
}

void speaks_as_it_is_set(Stage& stage) {
  unsigned plain = 0;
  try {
    plain = fetch(stage.weir().port(), get("/health", "Connection: close\r\n"), "GET").status;
  } catch (const PeerGone&) {
  }
  const bool tls = stage.model().speaks_tls;
  if (!tls && plain != 200) throw Violation("I2: a plain client gets " + std::to_string(plain) + " of a plain weir");
  if (!tls) return;
  if (plain != 0 && plain != 400)
    throw Violation("I2: a plain client gets " + std::to_string(plain) + " at the TLS port");
  try {
    const auto got = fetch(stage.door(), get("/health", "Connection: close\r\n"), "GET").status;
    if (got != 200) throw Violation("I2: a TLS client gets " + std::to_string(got));
  } catch (const PeerGone& gone) {
    throw Violation(std::string("I2: a TLS client is not served: ") + gone.what());
  }
}

void no_secret_is_elsewhere(Stage& stage, const Page& page) {
  for (const auto& violation : stage.truth().violations()) throw Violation(violation);
  for (const auto* secret : {"secret-of-", "engine-secret-"}) {
    must_not_hold(page.text, secret, "the metrics");
    must_not_hold(stage.weir().log_text(), secret, "the request log");
    must_not_hold(stage.weir().output(), secret, "weir's own log");
  }
}

void limits_count(Stage& stage) {
  pool_limit_counts(stage);
  for (const auto* one : stage.model().replicas()) {
    if (one->drained && stage.came_since_drained(*one) > 0)
      throw Violation("I4: " + one->name + " is drained, and was given " +
                      std::to_string(stage.came_since_drained(*one)) + " requests since");
    if (one->most == 0) continue;
    // A lower limit ends nothing: so streams that began before count for nothing here.
    const auto began = stage.began_since_changed(*one);
    if (began > one->most)
      throw Violation("I4: " + one->name + " has " + std::to_string(began) + " streams, its max_in_flight is " +
                      std::to_string(one->most));
  }
}

void books_are_empty(Stage& stage) {
  std::string full;
  const bool empty = Stage::look(
      [&] {
        full = full_book(stage.page().metrics);
        return full.empty();
      },
      15s);
  if (!empty) throw Violation("I5: at rest " + full);
}

void descriptors_are_as_before(Stage& stage) {
  if (!Stage::look([&] { return stage.weir().process().open_descriptors() <= stage.files_at_the_beginning(); }, 15s))
    throw Violation("I5: " + std::to_string(stage.weir().process().open_descriptors()) + " descriptors at rest, " +
                    std::to_string(stage.files_at_the_beginning()) + " at the beginning");
}

void nobody_stopped_is_in(Stage& stage, const Page& page) {
  if (const auto name = stage.stopped_and_out(); is(page, name, "up") || is(page, name, "starting"))
    throw Violation("I7: " + name + " is stopped, and is in again");
}

void nobody_well_is_out(Stage& stage, const Page& page) {
  std::vector<std::string> all{"gpu-1", "gpu-2", "gpu-3", "shadowed", "s0", "s1", "still"};
  for (const auto* one : stage.model().replicas()) all.push_back(one->name);
  for (std::size_t i = 0; i < most_beside; ++i) all.push_back(beside(i).name);
  for (const auto& name : all)
    for (const auto* state : {"ejected", "down"})
      if (is(page, name, state) && stage.was_always_well(name))
        throw Violation("I7: " + name + " is " + state + ", and was always well");
}

void nobody_waits_in_vain(Stage& stage) {
  const Replica* idle = nullptr;
  const auto waits_in_vain = [&] {
    const auto page = stage.page();
    if (page.metrics.sum("weir_requests_waiting", {{"pool", stage.model().pool}}) == 0) return false;
    const auto most = stage.model().pool_most;
    if (most != 0 && page.metrics.sum("weir_requests_in_flight", {{"pool", stage.model().pool}}) >= most) return false;
    idle = idle_replica(stage, page);
    return idle != nullptr;
  };
  if (!waits_in_vain()) return;
  const auto name = idle->name;
  if (!Stage::look([&] { return !waits_in_vain(); }, idle_for))
    throw Violation("I8: a request waits, and " + name + " is up and has nothing to do");
}

void memory_is_bounded(Stage& stage) {
  const auto memory = stage.weir().process().resident_memory();
  if (memory > most_memory) throw Violation("I9: weir holds " + std::to_string(memory / 1024 / 1024) + " MiB");
}

void streams_are_whole(Stage& stage) {
  for (const auto& client : stage.clients()) {
    const auto& asked = client->asked();
    if (!client->has_ended() || client->has_left() || asked.stalls || !asked.target.empty()) continue;
    const auto got = client->answer();
    const auto who = "I10: " + asked.id + " (" + asked.what + ", model " + asked.model + ") of " +
                     (got.replica.empty() ? "nobody" : got.replica);
    if (got.status == 0) throw Violation(who + " has no answer");
    if (asked.is_denied && got.status == 200)
      throw Violation("I1: " + asked.id + " is served by model " + asked.model + ", which its key may not use");
    if (got.status == 401) throw Violation("I1: " + asked.id + " with a right key gets 401");
    if (!got.replica.empty() && !stage.was_always_well(got.replica)) continue;
    if (!got.whole) throw Violation(who + " got a part of an answer " + std::to_string(got.status));
    if (got.status != 200 || !asked.streams) continue;
    if (const auto flaw = flaw_of_stream(asked.id, got.body); !flaw.empty()) throw Violation(who + ": " + flaw);
  }
}

void others_notice_nothing(const std::vector<Seen>& all, const std::set<std::string>& ill, std::size_t lost) {
  std::map<unsigned, std::size_t> bad;
  for (const auto& one : all) {
    if (ill.contains(one.replica) || one.flaw.empty() || ++bad[one.client] <= lost) continue;
    throw Violation("I15: another client, of " + (one.replica.empty() ? "nobody" : one.replica) + ", got " +
                    std::to_string(one.status) + ": " + one.flaw);
  }
}

void check_after_step(Stage& stage) {
  stage.await_departures();
  speaks_as_it_is_set(stage);
  only_who_may_enters(stage);
  const auto page = stage.page();
  no_secret_is_elsewhere(stage, page);
  limits_count(stage);
  nobody_well_is_out(stage, page);
  nobody_stopped_is_in(stage, page);
  nobody_waits_in_vain(stage);
  streams_are_whole(stage);
  memory_is_bounded(stage);
}

void check_at_rest(Stage& stage) {
  check_after_step(stage);
  books_are_empty(stage);
  log_is_what_clients_saw(stage);
}

}  // namespace weir::model
