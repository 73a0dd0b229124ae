// How the model's settings are written for weir.
#include <array>
#include <string>

#include "tests/integration/model/neighbours.hpp"
#include "tests/integration/model/stage.hpp"
#include "tests/integration/peers/keys_file.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::model {
namespace {

using namespace integration;

ReplicaKeys keys_of(const Replica& replica, const Machine& machine) {
  ReplicaKeys keys{replica.name, machine.url()};
  if (!machine.secret().empty()) keys.more["api_key"] = quoted(machine.secret());
  if (replica.most != 0) keys.more["max_in_flight"] = std::to_string(replica.most);
  return keys;
}

}  // namespace

std::string Stage::file(const char* name) const { return quoted((files_.path() / name).string()); }

void Stage::write_files() const {
  std::string keys;
  for (const auto& key : model_.keys) {
    const auto most = key.most == 0 ? "" : "max_in_flight = " + std::to_string(key.most) + "\n";
    keys += key_lines(key.name, key.secret(), most + (key.narrow ? "models = [\"n\"]\n" : ""));
  }
  for (unsigned i = 0; i < Neighbours::clients + Neighbours::odd_clients; ++i)
    keys += key_lines(Neighbours::key(i).name, Neighbours::key(i).secret());
  write_file(files_.path() / "keys.toml", keys);
  const std::string name = model_.renewed ? "renewed" : "local";
  write_file(files_.path() / "cert.pem", read_file(tls_file(name + ".pem")));
  write_file(files_.path() / "key.pem", read_file(tls_file(name + ".key")));
}

WeirSettings Stage::settings() const {
  static constexpr std::array policies{"least_queued_tokens", "round_robin", "random", "least_requests",
                                       "power_of_two"};
  static constexpr std::array queues{"8", "0", "2"};
  const Keys how{{"policy", quoted(policies[model_.policy % policies.size()])},
                 {"prefix_aware", model_.policy / policies.size() % 2 == 0 ? "true" : "false"},
                 {"queue", queues[model_.queue % queues.size()]},
                 {"queue_time", "5"},
                 {"queue_time_down", "1"}};
  WeirSettings all;
  const auto pool = [&](const std::string& name, const std::vector<Replica>& replicas, const char* models) {
    if (replicas.empty()) return;
    all.pools.push_back({.name = name, .replicas = {}, .more = how});
    all.pools.back().more["models"] = models;
    for (const auto& one : replicas) all.pools.back().replicas.push_back(keys_of(one, machine(one)));
  };
  pool(model_.pool, model_.first, "[\"m\"]");
  if (model_.pool_most != 0) all.pools.back().more["max_in_flight"] = std::to_string(model_.pool_most);
  pool("second", model_.second, "[\"n\"]");
  all.pools.push_back(
      {.name = "named",
       .replicas = {{"gpu",
                     "http://engines." + std::string(DnsServer::domain) + ":" + std::to_string(named_port_),
                     {{"expand", "true"}}}},
       .more = how});
  all.pools.back().more["models"] = "[\"d\"]";
  all.pools.push_back({.name = "simulated", .replicas = {}, .more = how});
  all.pools.back().more["models"] = "[\"s\"]";
  all.pools.back().more["queue"] = "4";
  for (std::size_t i = 0; i < outside_.processes.size(); ++i)
    all.pools.back().replicas.push_back(
        {"s" + std::to_string(i), outside_.processes[i].url(), {{"max_in_flight", "2"}}});
  all.pools.push_back({.name = "flooded", .replicas = {{"still", outside_.still.url()}}, .more = how});
  all.pools.back().more["models"] = "[\"f\"]";
  all.pools.push_back({.name = "beside", .replicas = {}, .more = how});
  all.pools.back().more["models"] = "[\"b\", \"b-adapter\"]";
  all.pools.back().more["engine"] = "{ metrics_path = \"/metrics\" }";
  for (std::size_t i = 0; i < model_.beside; ++i)
    all.pools.back().replicas.push_back(keys_of(beside(i), *machines_[beside(i).machine]));
  if (model_.has_shadow)
    all.shadows = {{"candidate",
                    {keys_of({.name = "shadowed", .machine = machine_of_shadow}, *machines_[machine_of_shadow])},
                    {{"sample", "1.0"}, {"of", quoted(model_.pool)}}}};
  all.server = {{"threads", "2"}};
  if (model_.needs_keys) all.server["api_keys"] = file("keys.toml");
  // Some replicas have keys of their own. Any client that reaches weir may use them, if clients need none.
  if (!model_.needs_keys) all.server["open"] = "true";
  if (model_.speaks_tls) all.server["tls"] = "{ cert = " + file("cert.pem") + ", key = " + file("key.pem") + " }";
  all.health = {{"path", "\"/alive\""}, {"interval", "0.3"}, {"timeout", "2"}};
  all.engine = {{"metrics_path", "\"\""}};
  all.discovery = {{"nameserver", outside_.dns.address()}, {"interval", "0.3"}};
  all.limits = {{"first_token", "60"},
                {"between_tokens", "60"},
                {"whole_answer", "60"},
                {"upstream_idle", "0.2"},
                {"drain", "120"},
                {"connect", "20"},
                {"request_body", "\"1MiB\""},
                {"buffer_memory", "\"16MiB\""}};
  return with_admin(std::move(all), admin_);
}

WeirSettings Stage::settings_and_homes() {
  for (const auto* one : model_.replicas()) homes_[one->name].insert(one->machine);
  homes_["shadowed"] = {machine_of_shadow};
  for (std::size_t i = 0; i < most_beside; ++i) homes_[beside(i).name] = {beside(i).machine};
  return settings();
}

}  // namespace weir::model
