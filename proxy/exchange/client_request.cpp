#include "proxy/exchange/client_request.hpp"

#include <chrono>
#include <utility>

#include "proxy/exchange/loop.hpp"

namespace weir::proxy::exchange {
namespace {

using metrics::NamedBy;

/// SGLang opens and closes a session by a path of its own, and the client may name it.
bool is_about_session(std::string_view path) { return path == "/open_session" || path == "/close_session"; }

/// Returns the hash of the name of state that the client made up. A slot is one of the client's own: without a
/// credential nobody knows whose.
std::uint64_t pin_of(const ClientMessage& message, const ClientIdentity& client) {
  const auto& facts = *message.facts;
  if (is_about_session(message.head.path)) return facts.name(NamedBy::session_id);
  if (const auto conversation = facts.name(NamedBy::conversation); conversation != 0) return conversation;
  const auto slot = facts.name(NamedBy::slot);
  const auto credential = credential_of(metrics::name_key, message.head, client.key_name());
  if (slot == 0 || !credential) return 0;
  metrics::SipHash hash(metrics::name_key);
  hash.add(*credential);
  hash.add(slot);
  return metrics::name_of_hash(hash.value());
}

}  // namespace

std::uint64_t state_of(const ClientMessage& message) {
  const auto kept = http::kept_path(message.head.method, message.head.path);
  if (kept && !kept->id.empty()) return metrics::hash_of_name(kept->id);
  const bool may_name = (kept && kept->makes) || message.api == metrics::Api::openai_responses;
  return may_name ? message.facts->name(NamedBy::stored) : 0;
}

void set_ties(balancer::story::Story::Request& about, balancer::Homes& homes, const ClientMessage& message,
              const ClientIdentity& client, const fleet::PoolRuntime& pool, const metrics::SipKey& lot_key) {
  const auto& facts = *message.facts;
  const auto kept = http::kept_path(message.head.method, message.head.path);
  about.hands_out = kept ? kept->makes : message.api == metrics::Api::openai_responses && facts.stores;
  auto& ties = about.ties;
  ties.session = session_of(pool.settings.session, message.head, *facts.names, client.key_name());
  ties.pin = pin_of(message, client);
  // Clients can tell which replica a name is for, and not which side of a split.
  if (const auto name = ties.session != 0 ? ties.session : ties.pin; name != 0) {
    metrics::SipHash hash(lot_key);
    hash.add(name);
    about.lot = metrics::name_of_hash(hash.value());
  }
  about.state = state_of(message);
  if (about.state == 0) {
    about.state = facts.name(NamedBy::conversation);
  } else if (const auto home = homes.find(about.state, message.received);
             home && pool.balancer->figures().has(home->replica)) {
    ties.home = home->replica;
    if (home->number != 0) about.lot = home->number;
  } else {
    ties.seeks = true;
  }
}

const fleet::PoolRuntime* pool_of_state(const fleet::Snapshot& snapshot, balancer::Homes& homes,
                                        const ClientMessage& message) {
  const auto state = state_of(message);
  const auto home = state != 0 ? homes.find(state, message.received) : std::nullopt;
  if (!home) return nullptr;
  for (const auto& pool : snapshot.pools)
    if (pool->balancer->figures().has(home->replica)) return pool.get();
  return nullptr;
}

using metrics::record::RequestRecord;

RequestRecord begin_record(const ClientRequest& request, std::uint64_t bytes_in) {
  RequestRecord record;
  const auto& message = request.message;
  record.time = message.time;
  record.id = request.ids.weir;
  record.client_id = request.ids.client;
  record.key = request.client.key_name();
  if (message.facts)
    record.facts = *message.facts;
  else
    record.facts.api = message.api;
  record.prefixes = message.prefixes;
  record.received = message.received;
  record.bytes_in = bytes_in;
  return record;
}

void settle(Loop& loop, metrics::series::ReplicaSeries& series, RequestRecord&& record) {
  series.shard(loop.index).settle(record);
  loop.shared.log.write(record);
  loop.finished.put(std::move(record));  // A record too many is missing only from the live pages.
}

void leave_to_be_paired(Loop& loop, RequestRecord&& record) {
  if (!loop.finished.put(std::move(record))) loop.shared.log.count_lost();
}

void record_unassigned(Loop& loop, ClientRequest& request, metrics::Outcome outcome, std::optional<unsigned> status) {
  auto record = begin_record(request, request.message.body.size());
  record.outcome = outcome;
  if (outcome == metrics::Outcome::client_abort) record.phase = metrics::Phase::queue;
  record.status = status;
  record.ended = std::chrono::steady_clock::now();
  request.progress.recorded = true;
  settle(loop, loop.shared.exposition.unassigned(), std::move(record));
}

}  // namespace weir::proxy::exchange
