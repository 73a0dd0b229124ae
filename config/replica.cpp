#include "config/replica.hpp"

#include <cstdint>
#include <string>

#include "config/address.hpp"
#include "config/tls.hpp"
#include "config/values.hpp"

namespace weir::config {

Replica ReplicaReading::replica(const std::string& title, const toml::table& source, Places& urls, Replica replica) {
  TableReader table(title, source, report_);
  if (table.read_name(replica.name, name, names_, "metrics and log need it, such as name = \"gpu0\"",
                      "The replica in metrics, log and `x-weir-replica`. Unique in the file."))
    titles_.emplace(replica.name, title);
  if (const auto* node = table.require("url", replica.url, replica_url,
                                       "say where it listens, such as url = \"http://127.0.0.1:8001\"",
                                       "`http://HOST[:PORT][/PREFIX]`, the same with `https://`, or `unix:/PATH`. "
                                       "The prefix is put before the path of every request, so a url does not end in "
                                       "`/v1`. No user name, no query.")) {
    const auto place =
        replica.url.host + ' ' + std::to_string(replica.url.port) + replica.url.prefix + replica.url.unix_path;
    table.refuse_taken("url", *node, place, urls, "one replica under two names would get twice its share");
    for (const auto& listener : listeners_) {
      if (!leads_to(replica.url, listener.address)) continue;
      table.blame("url", *node,
                  "is weir itself, which has \"" + to_text(listener.address) + "\" as " + listener.table +
                      " listen; give the replica's own port, or let weir listen on another");
    }
  }
  read_replica_tls(table, title, replica, report_);
  read_expand(table, replica);
  table.read("config", replica.config, Text{128},
             "Name of the configuration for comparisons, such as `\"vllm-fp8\"`: replicas with the same text are one "
             "configuration, of which step times are learned together. Without it: the name. A label in metrics, so "
             "keep to few texts.");
  if (!table.has("config")) replica.config = replica.name;
  table.read("gpu", replica.gpu, Text{128, true}, "A text for people who read the metrics.");
  read_key(table, replica);
  table.read("weight", replica.weight, Number{0.001, 1000},
             "A preference: predicted seconds, or counts of requests, are divided by it. No share of the traffic: "
             "for a share use a [rollout](#rollout). A faster replica needs no weight, its times are learned.");
  table.read("cost_per_hour", replica.cost_per_hour, Number{0, 1'000'000},
             "Price in any currency, for the costs that `weir compare --config` reports.");
  table.read("kv_tokens", replica.kv_tokens, Whole<std::uint64_t>{1, 1'000'000'000'000},
             "Tokens that its KV cache holds; weir overfills no replica while another one has room. Without it: what "
             "the engine tells. TGI from v3 on tells nothing.");
  table.read("max_context", replica.max_context, Whole<std::uint64_t>{1, 1'000'000'000'000},
             "The most tokens of one request, prompt and output. A longer request prefers a replica whose context "
             "suffices. Without it: what the engine tells.");
  const auto* refuses = table.read("max_context_refuses", replica.max_context_refuses, flag,
                                   "A prompt estimated at more than 1.6 times `max_context` does not go to this "
                                   "replica; 400 where all replicas of the pool refuse it. Needs `max_context`.");
  if (refuses && replica.max_context_refuses && !replica.max_context) {
    table.blame("max_context_refuses", *refuses,
                "says to refuse what is longer than max_context, which this replica does not set; set max_context to "
                "the tokens that a request may have, or leave this out");
  }
  table.read("max_in_flight", replica.max_in_flight, Whole<std::uint32_t>{1, 1'000'000},
             "The most requests at a time. Others go elsewhere, or wait.");
  table.read("max_queued_tokens", replica.max_queued_tokens, Whole<std::uint64_t>{1, 1'000'000'000'000},
             "The most estimated prompt tokens that wait in the replica for their first token. Others go elsewhere, "
             "or wait. A longer request is sent when nothing else waits there.");
  table.refuse_the_rest();
  return replica;
}

void ReplicaReading::list(const Replica& replica, const std::string& within) {
  Places none;
  report_.listing()->push_back({"replica " + replica.name, within, {}});
  this->replica("[[replica]]", no_table, none, replica);
}

void ReplicaReading::read_expand(TableReader& table, Replica& replica) {
  const auto* expand = table.read("expand", replica.expand, flag,
                                  "Each address of the url's host is a replica: NAME-1, NAME-2 and so on, at most "
                                  "1024. For a headless service of Kubernetes. A member leaves once answers "
                                  "have lacked it for three intervals of `[discovery]` and it is down or drained.");
  if (!expand || !replica.expand) return;
  expanded_.emplace(replica.name, expand);
  if (!replica.url.unix_path.empty())
    table.blame("expand", *expand,
                "makes a replica of each address of the url's host, and the url names a socket; leave this out");
  else if (is_numeric(replica.url.host))
    table.blame("expand", *expand,
                "makes a replica of each address of the url's host, and \"" + replica.url.host +
                    "\" is an address; give the url a host's name, or leave this out");
}

void ReplicaReading::refuse_names_of_expanded() {
  for (const auto& [name, place] : names_) {
    const auto dash = name.rfind('-');
    if (dash == std::string::npos) continue;
    const auto number = std::string_view(name).substr(dash + 1);
    const auto found = expanded_.find(std::string_view(name).substr(0, dash));
    const bool is_number = !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
    if (found == expanded_.end() || !is_number) continue;
    report_.add(place->source().begin, titles_[name] + " name = \"" + name + "\": is a name for an address of \"" +
                                           found->first + "\", which has expand = true " + in_line(*found->second) +
                                           "; rename one of them");
  }
}

void ReplicaReading::read_key(TableReader& table, Replica& replica) {
  constexpr std::string_view what = "the replica's key";
  const auto* const read = table.read_secret_or_file("api_key", "api_key_file", replica.api_key, what,
                                                     "api_key is set as well, and a replica has one key; remove one "
                                                     "of them",
                                                     "The replica's key. Requests and probes carry it as "
                                                     "`Authorization: Bearer KEY` in place of the client's credential. "
                                                     "Without it the client's own credential goes on, unless it is a "
                                                     "key for weir.",
                                                     "File that holds the key and nothing else. Read at the start and "
                                                     "at each reload. Not together with `api_key`.");
  if (server_.open || !server_.api_keys.empty() || read == nullptr) return;
  for (const auto& listener : listeners_) {
    if (listener.table != "[server]" || is_local(listener.address)) continue;
    const auto where = listener.written ? ' ' + in_line(*listener.written) : std::string();
    table.blame_secret(table.has("api_key") ? "api_key" : "api_key_file", *read,
                       "would be used for everyone who reaches \"" + to_text(listener.address) +
                           "\", which is [server] listen" + where +
                           "; give clients keys of their own with api_keys in [server], listen on a loopback address "
                           "such as \"127.0.0.1:8080\", or write open = true in [server] if everyone may use this "
                           "replica");
    return;
  }
}

}  // namespace weir::config
