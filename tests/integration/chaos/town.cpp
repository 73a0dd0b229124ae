#include "tests/integration/chaos/town.hpp"

#include <openssl/sha.h>
#include <signal.h>

#include <array>
#include <iomanip>
#include <sstream>

#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::chaos {
namespace {

using namespace integration;

/// What clients show at a guarded door. The second key has few places.
const std::vector<std::string> door_keys{"key-of-alice", "key-of-bob"};

std::string keys_file() {
  std::ostringstream text;
  for (const auto& key : door_keys) {
    std::array<unsigned char, SHA256_DIGEST_LENGTH> hash;
    SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), hash.data());
    text << "[[key]]\nname = " << quoted(key) << "\nsha256 = \"" << std::hex << std::setfill('0');
    for (const auto byte : hash) text << std::setw(2) << unsigned{byte};
    text << "\"\n" << (key == door_keys.back() ? "max_in_flight = 9\n" : "");
  }
  return text.str();
}

}  // namespace

Town::Place::Place(std::uint64_t seed, const std::string& its_name, bool speaks_tls)
    : name(its_name), port(free_port()), how(seed, its_name) {
  start();
  if (speaks_tls) tls.emplace(Bridge::Kind::tls_to_plain, port);
}

ReplicaKeys Town::Place::keys() const {
  if (!tls) return {name, "http://127.0.0.1:" + std::to_string(port)};
  return {name, tls->url(), {{"tls", "{ ca = " + quoted(tls_file("ca.pem")) + " }"}}};
}

void Town::Place::start() {
  deaf.reset();
  peer = std::make_unique<ScriptedReplica>([this](Exchange& exchange) { how.answer(exchange); },
                                           ScriptedReplica::ModelsQuestion::answered_unseen, port);
  peer->at_each_head([this](Exchange& exchange) { how.at_head(exchange); });
}

Town::Town(std::uint64_t seed) : seed_(seed), dice_(seed, "town") {
  for (const std::string name : {"r0", "r1", "r2"}) places_.emplace_back(seed, name, name == "r1");
  candidate_ = std::make_unique<Place>(seed, "cand", true);
  start_simulated();
  weir_.emplace(settings());
}

void Town::start_simulated() {
  simulated_ =
      std::make_unique<SimulatedReplica>(std::vector<std::string>{"--step-ms", "2", "--model", "m"}, simulated_port_);
}

/// The replicas stay the same, so that their counters do. All else may differ from one reload to the next.
WeirSettings Town::settings() {
  const auto one_of = [this](std::initializer_list<const char*> words) {
    return std::string(std::data(words)[dice_.below(words.size())]);
  };
  PoolKeys pool{.name = "chat", .replicas = {}};
  for (const auto& place : places_) pool.replicas.push_back(place.keys());
  pool.replicas.push_back({"sim", "http://127.0.0.1:" + std::to_string(simulated_port_), {{"inject_usage", "false"}}});
  for (auto& replica : pool.replicas) {
    replica.more.insert({"weight", one_of({"1.0", "0.5", "2.0"})});
    if (dice_.chance(0.5)) replica.more.insert({"max_in_flight", one_of({"4", "8", "16"})});
  }
  pool.more = {{"policy", one_of({R"("least_queued_tokens")", R"("round_robin")", R"("power_of_two")", R"("random")"})},
               {"queue", one_of({"0", "4", "64"})},
               {"queue_time", one_of({"0.2", "2"})},
               {"queue_time_down", "1"}};
  WeirSettings all{.pools = {pool}};
  all.admin = {{"listen", quoted("127.0.0.1:" + std::to_string(admin_))}};
  all.health = {{"path", "\"/flip\""},
                {"interval", "0.2"},
                {"timeout", "0.5"},
                {"down_after", one_of({"1", "3"})},
                {"eject", one_of({"true", "false"})}};
  all.engine = {{"interval", "0.5"}};
  all.limits = {
      {"first_token", "0.6"},
      {"between_tokens", "0.6"},
      {"whole_answer", "1"},
      {"connect", "0.5"},
      {"body_time", "1"},
      {"handshake_time", "60"},  // On a busy machine a client may be slow. Whom weir gives up, it has not heard.
      {"client_stall", "2"},
      {"request_body", "\"2MiB\""},
      {"buffer_memory", one_of({"\"2MiB\"", "\"512MiB\""})},
      {"read_ahead", one_of({"\"4KiB\"", "\"1MiB\""})},
      {"accept_hold", one_of({"0", "0.05", "10"})},
      {"retry_budget", one_of({"0", "0.2", "1"})},
      {"upstream_idle", one_of({"0.05", "2"})},
      {"drain", "0.5"}};
  all.shadows = {{"fp8",
                  {candidate_->keys()},
                  {{"sample", one_of({"0.2", "1.0"})}, {"on_client_abort", one_of({R"("follow")", R"("finish")"})}}}};
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
  if (!guarded_) return {"open", weir_->port(), weir_->port()};
  return {"guarded", to_weir_->port(), half_closing_->port(), door_keys};
}

void Town::guards_its_door() {
  guarded_ = true;
  write_file(files_.path() / "keys.toml", keys_file());
  use_certificate("local", "local");
  weir_->rewrite(settings());
  // Another reload may still be under way.
  look_until("weir to reload its settings", [this] { return post_admin("/-/reload").status == 200; });
  to_weir_.emplace(Bridge::Kind::plain_to_tls, weir_->port());
  half_closing_.emplace(Bridge::Kind::plain_to_tls, weir_->port(), Bridge::Options{.half_closes = true});
}

Response Town::ask_admin(const std::string& bytes, std::string_view method) const {
  try {
    return fetch(admin_, bytes, method);
  } catch (const std::exception& error) {
    throw std::runtime_error("the admin listener, asked " + bytes.substr(0, bytes.find("\r\n")) + ": " + error.what());
  }
}

Response Town::post_admin(const std::string& path) const {
  const auto host = "127.0.0.1:" + std::to_string(admin_);
  return ask_admin("POST " + path + " HTTP/1.1\r\nHost: " + host +
                       "\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
                   "POST");
}

void Town::get_admin(const std::string& path) const {
  ask_admin("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "GET");
}

void Town::reload() {
  ++reloads_;
  if (guarded_) {
    const std::string name = dice_.chance(0.5) ? "local" : "renewed";
    use_certificate(name, dice_.chance(0.1) ? "exact" : name);
  }
  weir_->rewrite(settings());
  if (dice_.chance(0.5)) return weir_->process().send(SIGHUP);
  static_cast<void>(post_admin("/-/reload"));
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
  // Nobody is away for long.
  if (!place.peer && dice_.chance(0.5)) return end_or_start(place);
  if (!simulated_ && dice_.chance(0.3)) return end_or_start_simulated();
  const auto kind = dice_.below(100);
  if (kind < 15) {
    reload();
  } else if (kind < 30) {
    ++drains_;
    static_cast<void>(post_admin("/api/replicas/" + place.name + (dice_.chance(0.3) ? "/drain" : "/undrain")));
  } else if (kind < 45) {
    ++scrapes_;
    static_cast<void>(weir_->metrics());
  } else if (kind < 55) {
    for (const auto* page : {"/api/replicas", "/api/settings", "/api/compare", "/"}) get_admin(page);
  } else if (kind < 60) {
    ++switches_;
    static_cast<void>(post_admin(std::string("/api/shadow/fp8/") + (dice_.chance(0.5) ? "on" : "off")));
  } else if (kind < 65) {
    ++bypasses_;
    static_cast<void>(post_admin(std::string("/api/bypass/") + (dice_.chance(0.4) ? "on" : "off")));
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
  for (auto* place :
       {&*places_.begin(), &*std::next(places_.begin()), &*std::next(places_.begin(), 2), candidate_.get()}) {
    place->how.misbehaves(false);
    place->how.is_healthy(true);
    if (!place->peer) place->start();
    if (place != candidate_.get()) static_cast<void>(post_admin("/api/replicas/" + place->name + "/undrain"));
  }
  for (const auto* path : {"/api/shadow/fp8/on", "/api/bypass/off"}) static_cast<void>(post_admin(path));
  if (!simulated_) start_simulated();
}

std::string Town::happened() const {
  std::ostringstream text;
  text << reloads_ << " reloads, " << drains_ << " drains, " << scrapes_ << " scrapes, " << deaths_
       << " ends and starts of replicas, " << silences_ << " of them without a word, " << flips_ << " flips of health, "
       << switches_ << " switches of the shadow, " << bypasses_ << " of the bypass";
  return text.str();
}

}  // namespace weir::chaos
