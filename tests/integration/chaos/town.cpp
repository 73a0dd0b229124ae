#include "tests/integration/chaos/town.hpp"

#include <signal.h>

#include <sstream>
#include <utility>

#include "tests/integration/peers/keys_file.hpp"
#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::chaos {
namespace {

using namespace integration;

/// The keys that clients show at a guarded door. The second one has few places.
const std::vector<std::string> door_keys{"key-of-alice", "key-of-bob"};

std::string keys_file() {
  return key_lines(door_keys[0], door_keys[0]) + key_lines(door_keys[1], door_keys[1], "max_in_flight = 9\n");
}

}  // namespace

Town::Place::Place(std::uint64_t seed, const std::string& its_label, bool speaks_tls)
    : label(its_label), port(free_port()), how(seed, its_label) {
  start();
  if (speaks_tls) tls.emplace(Bridge::Kind::tls_to_plain, port);
}

ReplicaKeys Town::Place::keys() const {
  if (!tls) return {name, url_of(port)};
  return {name, tls->url(), {{"tls", "{ " + trusting_keys() + " }"}}};
}

void Town::Place::start() {
  deaf.reset();
  peer = std::make_unique<ScriptedReplica>([this](Exchange& exchange) { how.answer(exchange); },
                                           ScriptedReplica::ModelsQuestion::answered_unseen, port);
  peer->at_each_head([this](Exchange& exchange) { how.at_head(exchange); });
}

Town::Town(std::uint64_t seed) : dice_(seed, "town") {
  constexpr std::size_t machines = 5, with_a_replica = 3;
  for (std::size_t i = 0; i < machines; ++i) {
    auto& place = places_.emplace_back(seed, "m" + std::to_string(i), i % 2 == 1);
    if (i < with_a_replica) give_name(place, "r" + std::to_string(given_++));
  }
  names_.give("sim", "sim");
  candidate_ = std::make_unique<Place>(seed, "cand", true);
  candidate_->name = "cand";
  start_simulated();
  weir_.emplace(settings());
}

void Town::start_simulated() {
  simulated_ =
      std::make_unique<SimulatedReplica>(std::vector<std::string>{"--step-ms", "2", "--model", "m", "--prefix-cache",
                                                                  "blocks", "--cached-tokens", "nonzero"},
                                         simulated_port_);
}

/// Everything but the simulated replica may differ from one reload to the next.
WeirSettings Town::settings() {
  const auto one_of = [this](std::initializer_list<const char*> words) {
    return std::string(std::data(words)[dice_.below(words.size())]);
  };
  PoolKeys pool{.name = "chat", .replicas = {}};
  for (const auto& place : places_)
    if (!place.name.empty()) pool.replicas.push_back(place.keys());
  pool.replicas.push_back({"sim", url_of(simulated_port_)});
  for (auto& replica : pool.replicas) {
    replica.more.insert({"weight", one_of({"1.0", "0.5", "2.0"})});
    if (dice_.chance(0.5)) replica.more.insert({"max_in_flight", one_of({"4", "8", "16"})});
  }
  pool.more = {{"policy", one_of({R"("least_queued_tokens")", R"("round_robin")", R"("power_of_two")", R"("random")"})},
               {"queue", one_of({"0", "4", "64"})},
               {"prefix_aware", one_of({"true", "true", "true", "false"})},
               {"max_queued_tokens", one_of({"10000", "100000", "100000"})},
               {"queue_time", one_of({"0.2", "2"})},
               {"queue_time_down", "1"}};
  auto all = with_admin({.pools = {pool}}, admin_);
  all.health = {{"path", "\"/flip\""},
                {"interval", "0.2"},
                {"timeout", "0.5"},
                {"eject", one_of({"true", "false"})}};
  all.limits = {
      {"first_token", "0.6"},
      {"between_tokens", "0.6"},
      {"whole_answer", "1"},
      {"connect", "0.5"},
      {"client_stall", "2"},
      {"request_body", "\"2MiB\""},
      {"buffer_memory", one_of({"\"2MiB\"", "\"512MiB\""})},
      {"retry_budget", one_of({"0", "0.2", "1"})},
      {"upstream_idle", one_of({"0.05", "2"})},
      {"drain", "0.5"}};
  all.shadows = {{"fp8", {candidate_->keys()}, {{"sample", one_of({"0.2", "1.0"})}}}};
  all.server = {{"half_close", one_of({R"("abort")", R"("allow")"})}};
  if (guarded_) {
    const auto file = [this](const char* name) { return quoted((files_.path() / name).string()); };
    all.server["tls"] = "{ cert = " + file("cert.pem") + ", key = " + file("key.pem") + " }";
    all.server["api_keys"] = file("keys.toml");
  }
  return all;
}

void Town::use_certificate(const std::string& cert, const std::string& key) const {
  write_file(files_.path() / "cert.pem", read_file(tls_file(cert + ".pem")));
  write_file(files_.path() / "key.pem", read_file(tls_file(key + ".key")));
}

Door Town::door() const {
  if (!guarded_) return {changes_ ? "changing" : "open", weir_->port(), weir_->port(), names_};
  return {"guarded", to_weir_->port(), half_closing_->port(), names_, door_keys};
}

void Town::guards_its_door() {
  guarded_ = true;
  write_file(files_.path() / "keys.toml", keys_file());
  use_certificate("local", "local");
  reload_at_last();
  to_weir_.emplace(Bridge::Kind::plain_to_tls, weir_->port());
  half_closing_.emplace(Bridge::Kind::plain_to_tls, weir_->port(), Bridge::Options{.half_closes = true});
}

/// Another reload may still be under way.
void Town::reload_at_last() {
  weir_->rewrite(settings());
  look_until("weir to reload its settings", [this] { return post_admin(admin_, "/-/reload").status == 200; });
}

void Town::give_name(Place& place, const std::string& name) {
  place.name = name;
  names_.give(name, place.label);
}

/// The settings that are read next have other replicas. What is under way at those that leave goes on.
void Town::change_replicas() {
  std::vector<Place*> with, without;
  for (auto& place : places_) (place.name.empty() ? without : with).push_back(&place);
  const auto one_of = [this](auto& some) { return some[dice_.below(some.size())]; };
  auto& one = *one_of(with);
  switch (dice_.below(4)) {
    case 0: {
      if (without.empty()) return;
      ++comings_;
      const auto gone = names_.gone();
      const bool returns = !gone.empty() && dice_.chance(0.3);
      return give_name(*one_of(without), returns ? one_of(gone) : "r" + std::to_string(given_++));
    }
    case 1:
      if (with.size() == 1) return;
      ++leavings_;
      return names_.leaves(std::exchange(one.name, ""));
    case 2:
      ++renamings_;
      names_.leaves(one.name);
      return give_name(one, "r" + std::to_string(given_++));
    default: {
      ++moves_;
      auto& other = *std::next(places_.begin(), static_cast<std::ptrdiff_t>(dice_.below(places_.size())));
      const auto its_name = other.name;
      give_name(other, one.name);
      if (&other == &one) return;
      one.name = "";
      if (!its_name.empty()) give_name(one, its_name);
    }
  }
}

void Town::reload() {
  ++reloads_;
  if (changes_ && dice_.chance(0.7)) change_replicas();
  if (guarded_) {
    const std::string name = dice_.chance(0.5) ? "local" : "renewed";
    use_certificate(name, dice_.chance(0.1) ? "exact" : name);
  }
  weir_->rewrite(settings());
  if (dice_.chance(0.5)) return weir_->process().send(SIGHUP);
  static_cast<void>(post_admin(admin_, "/-/reload"));
}

void Town::end_or_start(Place& place) {
  ++deaths_;
  if (place.peer) {
    place.peer.reset();
    // A bridge would wait for such a port for minutes.
    if (place.tls || !dice_.chance(0.3)) return;
    ++silences_;
    place.deaf.emplace(place.port);
  } else {
    place.start();
  }
}

void Town::end_or_start_simulated() {
  ++deaths_;
  if (simulated_) {
    simulated_->process().send(SIGKILL);
    simulated_->process().wait(patience);
    simulated_.reset();
  } else {
    start_simulated();
  }
}

void Town::something_happens() {
  auto& place = *std::next(places_.begin(), static_cast<std::ptrdiff_t>(dice_.below(places_.size())));
  // A replica is not away for long.
  if (!place.peer && dice_.chance(0.5)) return end_or_start(place);
  if (!simulated_ && dice_.chance(0.3)) return end_or_start_simulated();
  const auto kind = dice_.below(100);
  if (kind < 15) {
    reload();
  } else if (kind < 30) {
    if (place.name.empty()) return;
    ++drains_;
    static_cast<void>(post_admin(admin_, "/api/replicas/" + place.name + (dice_.chance(0.3) ? "/drain" : "/undrain")));
  } else if (kind < 45) {
    ++scrapes_;
    static_cast<void>(weir_->metrics());
  } else if (kind < 55) {
    for (const auto* page : {"/api/live", "/api/settings", "/api/compare", "/"})
      static_cast<void>(get_admin(admin_, page));
  } else if (kind < 60) {
    ++switches_;
    static_cast<void>(post_admin(admin_, std::string("/api/shadow/fp8/") + (dice_.chance(0.5) ? "on" : "off")));
  } else if (kind < 65) {
    ++bypasses_;
    static_cast<void>(post_admin(admin_, std::string("/api/bypass/") + (dice_.chance(0.4) ? "on" : "off")));
  } else if (kind < 80) {
    end_or_start(dice_.chance(0.2) ? *candidate_ : place);
  } else if (kind < 85) {
    end_or_start_simulated();
  } else {
    ++flips_;
    place.how.is_healthy(dice_.chance(0.7));
  }
}

void Town::becomes_quiet() {
  if (guarded_) use_certificate("local", "local");
  reload_at_last();
  for (auto* place : all_places()) {
    place->how.misbehaves(false);
    place->how.is_healthy(true);
    if (!place->peer) place->start();
    if (place != candidate_.get() && !place->name.empty())
      static_cast<void>(post_admin(admin_, "/api/replicas/" + place->name + "/undrain"));
  }
  for (const auto* path : {"/api/shadow/fp8/on", "/api/bypass/off"}) static_cast<void>(post_admin(admin_, path));
  if (!simulated_) start_simulated();
}

void Town::becomes_wild() {
  for (auto* place : all_places()) place->how.misbehaves(true);
}

std::vector<Town::Place*> Town::all_places() {
  std::vector<Place*> all{candidate_.get()};
  for (auto& place : places_) all.push_back(&place);
  return all;
}

std::string Town::happened() const {
  std::ostringstream text;
  text << reloads_ << " reloads, " << comings_ << " replicas came, " << leavings_ << " left, " << renamings_
       << " were renamed and " << moves_ << " moved, " << drains_ << " drains, " << scrapes_ << " scrapes, " << deaths_
       << " ends and starts of replicas, " << silences_ << " of them without a word, " << flips_ << " flips of health, "
       << switches_ << " switches of the shadow, " << bypasses_ << " of the bypass";
  return text.str();
}

}  // namespace weir::chaos
