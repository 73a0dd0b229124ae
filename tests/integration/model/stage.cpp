#include "tests/integration/model/stage.hpp"

#include <signal.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "tests/integration/peers/streams.hpp"

namespace weir::model {
namespace {

using namespace integration;
using namespace std::chrono_literals;

constexpr auto pause = 5ms;
/// A replica that leaves is gone by then, if it has nothing to do.
constexpr std::chrono::milliseconds to_go = 2s;

}  // namespace

Stage::Stage(Outside& outside) : outside_(outside) {
  for (std::size_t i = 0; i < first_beside + most_beside; ++i)
    machines_.push_back(std::make_unique<Machine>(truth_, "m" + std::to_string(i), i % 2 == 1, free_port()));
  for (unsigned i = 0; i < addresses; ++i)
    named_machines_.push_back(std::make_unique<Machine>(truth_, "d" + std::to_string(i), false, named_port_, i + 2));
  answer_names(0b011);
  write_files();
  for (const auto* one : model_.replicas()) changed_at_[one->name] = 0;
  weir_.emplace(settings_and_homes());
  look([this] { return page().metrics.sum("weir_replica_state", {{"state", "up"}}) >= 11; }, at_most);
  files_at_the_beginning_ = weir_->process().open_descriptors();
}

Stage::~Stage() {
  truth_.over = true;
  for (auto& process : outside_.processes) process.process().send(SIGCONT);
  for (const auto& client : clients_) client->leave();
  clients_.clear();
}

bool Stage::look(const std::function<bool()>& done, std::chrono::milliseconds at_most) {
  for (const auto deadline = Clock::now() + at_most; !done(); std::this_thread::sleep_for(pause))
    if (Clock::now() > deadline) return false;
  return true;
}

Page Stage::page() const {
  auto text = fetch(weir_->metrics_port(), get("/metrics"), "GET").body;
  MetricsPage metrics(text);
  return {std::move(text), std::move(metrics)};
}

bool Stage::was_always_well(const std::string& replica) const {
  if (were_stopped_.contains(replica)) return false;
  const auto found = homes_.find(replica);
  return found == homes_.end() ||
         std::ranges::all_of(found->second, [this](std::size_t at) { return machines_[at]->was_always_well(); });
}

std::size_t Stage::under_way(const std::function<bool(const Client&)>& which) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(clients_, [&](const auto& one) { return one->is_under_way() && which(*one); }));
}

std::size_t Stage::began_since_changed(const Replica& replica) const {
  std::size_t began = 0;
  for (auto at = changed_at_.at(replica.name); at < clients_.size(); ++at)
    began += clients_[at]->is_under_way() && clients_[at]->replica() == replica.name;
  return began;
}

std::size_t Stage::began_in_pool_since_changed() const {
  // A replica that leaves is none of the pool's any more.
  const auto is_of_pool = [this](const std::string& replica) {
    return std::ranges::any_of(model_.first, [&](const Replica& one) { return one.name == replica; });
  };
  std::size_t began = 0;
  for (auto at = pool_changed_at_; at < clients_.size(); ++at)
    began += clients_[at]->is_under_way() && is_of_pool(clients_[at]->replica());
  return began;
}

std::size_t Stage::came_since_drained(const Replica& replica) const {
  std::size_t came = 0;
  for (auto at = drained_at_.at(replica.name); at < clients_.size(); ++at)
    came += clients_[at]->replica() == replica.name;
  return came;
}

void Stage::leaves(const std::string& replica) {
  if (under_way([&](const Client& one) { return one.replica() == replica; }) > 0)
    leaving_[replica] = times_said("replica '" + replica + "' at ");
}

void Stage::await_departures() {
  for (auto one = leaving_.begin(); one != leaving_.end();) {
    const auto& [name, times] = *one;
    const bool has_streams = under_way([&](const Client& client) { return client.replica() == name; }) > 0;
    if (!has_streams) static_cast<void>(look([&] { return times_said("replica '" + name + "' at ") > times; }, to_go));
    one = has_streams ? std::next(one) : leaving_.erase(one);
  }
}

bool Stage::play(const Operation& step) {
  std::map<std::string, std::pair<std::size_t, unsigned>> were;
  for (const auto* one : model_.replicas()) were[one->name] = {one->machine, one->most};
  const auto pool_was = std::pair(model_.pool, model_.pool_most);
  if (model_.apply(step)) {
    for (const auto* one : model_.replicas())
      if (!were.contains(one->name) || were[one->name] != std::pair{one->machine, one->most})
        changed_at_[one->name] = clients_.size();
    if (pool_was != std::pair(model_.pool, model_.pool_most)) pool_changed_at_ = clients_.size();
    reload();
    for (const auto& [name, at] : were)
      if (std::ranges::none_of(model_.replicas(),
                               [&](const Replica* one) { return one->name == name && one->machine == at.first; }))
        leaves(name);
    return true;
  }
  switch (step.verb) {
    case Verb::reload_wrongly:
      reload_wrongly(step.b);
      return true;
    case Verb::answer_names:
      return answer_names(step.b);
    case Verb::drain:
    case Verb::undrain:
    case Verb::switch_bypass:
    case Verb::switch_shadow:
    case Verb::reopen_log:
      return operate(step);
    case Verb::kill:
    case Verb::hang:
    case Verb::fail:
    case Verb::mend:
      return treat_machine(step);
    case Verb::await_out:
      return await_out();
    case Verb::single_out:
      return single_out(step);
    case Verb::spoil:
      return spoil(step);
    case Verb::release:
    case Verb::leave:
      return end_stream(step.a, step.verb == Verb::leave);
    case Verb::stop_process:
    case Verb::go_on:
    case Verb::come_back:
    case Verb::besiege:
    case Verb::change_keys:
    case Verb::flood:
      return storm(step);
    default:
      return ask_as_client(step);
  }
}

void Stage::reload() {
  write_files();
  weir_->rewrite(settings_and_homes());
  const auto got = post_admin(admin_, "/-/reload");
  if (got.status != 200) throw Violation("I0: a reload of right settings is refused: " + got.body);
  // A bridge resumes its session; another one sees the certificate that weir has now.
  if (model_.speaks_tls) bridges_.emplace_back(Bridge::Kind::plain_to_tls, weir_->port());
}

void Stage::reload_wrongly(unsigned how) {
  const auto right = read_file(weir_->settings_file()), keys = read_file(files_.path() / "keys.toml");
  const auto kind = how % 4;
  if (kind == 2 && model_.needs_keys) {
    write_file(files_.path() / "keys.toml", keys + "[[key]]\nname = \"torn\"\nsha2");
  } else if (kind == 3 && model_.speaks_tls) {
    write_file(files_.path() / "key.pem", read_file(tls_file("exact.key")));
  } else {
    write_file(weir_->settings_file(), right + (kind == 1 ? "[limits2]\nno_such_key = 1\n" : "[[pool\n"));
  }
  if (post_admin(admin_, "/-/reload").status == 200) throw Violation("I0: a reload of wrong settings is taken");
  write_file(weir_->settings_file(), right);
  write_files();
}

bool Stage::answer_names(unsigned bits) {
  bits %= 1U << addresses;
  static constexpr std::array<std::string_view, addresses> all{"127.0.0.2", "127.0.0.3", "127.0.0.4"};
  std::vector<std::string_view> some;
  for (unsigned i = 0; i < addresses; ++i)
    if ((bits >> i & 1) != 0) some.push_back(all[i]);
  const auto fewer = (bits & answered_) != answered_;
  const std::string words = fewer ? "' leaves: " : "' is new: ";
  const bool changes = some.empty() ? false : bits != answered_;
  const auto times = changes && weir_ ? times_said(words) : 0;
  answered_ = some.empty() ? answered_ : bits;
  outside_.dns.answers(some);
  if (!changes || !weir_) return some.empty();
  model_.replicas_changed = true;
  static_cast<void>(look([&] { return times_said(words) > times; }, to_go));
  for (unsigned i = 1; i <= addresses; ++i)
    if (const auto name = "gpu-" + std::to_string(i); times_said("replica '" + name + "' leaves: ") > 0) leaves(name);
  return true;
}

bool Stage::operate(const Operation& step) {
  auto& replica = model_.replica(step.a);
  const bool on = step.b % 2 == 1, drains = step.verb == Verb::drain;
  switch (step.verb) {
    case Verb::drain:
    case Verb::undrain:
      // weir refuses to drain the last one that takes requests.
      if (post_admin(admin_, "/api/replicas/" + replica.name + "/" + std::string(name_of(step.verb))).status != 200)
        return false;
      if (drains && !replica.drained) drained_at_[replica.name] = clients_.size();
      return std::exchange(replica.drained, drains) != drains;
    case Verb::switch_bypass:
      post_admin(admin_, on ? "/api/bypass/on" : "/api/bypass/off");
      return std::exchange(bypassed_, on) != on;
    case Verb::switch_shadow:
      if (model_.has_shadow) post_admin(admin_, on ? "/api/shadow/candidate/on" : "/api/shadow/candidate/off");
      return model_.has_shadow;
    default:
      weir_->process().send(SIGUSR1);
      return true;
  }
}

bool Stage::treat_machine(const Operation& step) {
  auto& machine = *machines_[model_.replica(step.a).machine];
  const bool was_ill = machine.is_dead() || machine.is_ill();
  if (step.verb != Verb::mend && machine.is_dead()) return false;
  switch (step.verb) {
    case Verb::kill:
      machine.kill();
      return true;
    case Verb::hang:
      machine.hang();
      return !was_ill;
    case Verb::fail:
      machine.fail();
      return !was_ill;
    default:
      machine.mend();
      return was_ill;
  }
}

bool Stage::is_up(const std::string& replica) const {
  return page().metrics.sum("weir_replica_state", {{"replica", replica}, {"state", "up"}}) > 0;
}

bool Stage::takes_requests(const std::string& replica) const {
  return is_up(replica) || page().metrics.sum("weir_replica_state", {{"replica", replica}, {"state", "starting"}}) > 0;
}

bool Stage::await_out() {
  bool any = false;
  for (const auto* one : model_.replicas()) {
    if (!machine(*one).is_dead() && !machine(*one).is_hung()) continue;
    any = true;
    if (!look([&] { return !is_up(one->name); }, 30s))
      throw Violation("I7: " + one->name + " is dead or hangs, and is up 30 s later");
    const auto held = [&] { return page().metrics.sum("weir_prefix_held_tokens", {{"replica", one->name}}); };
    if (machine(*one).is_dead() && !look([&] { return held() == 0; }, 5s))
      throw Violation("I14: " + one->name + " is dead, and is believed to hold " + std::to_string(held()) + " tokens");
  }
  return any;
}

void Stage::come_to_rest(const std::function<void()>& watch) {
  for (const auto& one : machines_) one->mend();
  static_cast<void>(go_on());
  const auto replicas = static_cast<unsigned>(model_.replicas().size());
  for (unsigned a = 0; a < replicas; ++a)
    if (model_.replica(a).drained) static_cast<void>(operate({Verb::undrain, a}));
  static_cast<void>(operate({Verb::switch_bypass}));
  for (const auto& one : clients_) {
    if (one->asked().stalls) one->leave();
    truth_.release(one->asked().id);
  }
  for (const auto& one : clients_)
    for (const auto deadline = Clock::now() + 60s; !look([&] { return one->has_ended(); }, 250ms); watch())
      if (Clock::now() > deadline)
        throw Violation("I10: " + one->asked().id + " (" + one->asked().what + ") never ends");
}

void Stage::ends_under_way() {
  for (unsigned i = 0; i < 6; ++i)
    clients_.push_back(std::make_unique<Client>(door(), request({Verb::hold, 0, 0}, "hold")));
  static_cast<void>(look([&] { return under_way([](const Client&) { return true; }) > 5; }, 2s));
  weir_->process().send(SIGTERM);
  weir_->wait_until_said("SIGTERM: draining");
  weir_->process().send(SIGTERM);
  weir_->ends();
  weir_->expect_last_words();
}

void Stage::back_to_the_beginning() {
  const auto changed = model_.replicas_changed;
  auto given = model_.given;
  model_ = Model();
  model_.given = std::max(given, model_.given);
  model_.replicas_changed = changed;
  reload();
}

}  // namespace weir::model
