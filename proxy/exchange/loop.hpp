// A stream loop is a thread with its own context, poller, deadlines, upstream connections and metrics shards.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.hpp"
#include "metrics/hash.hpp"
#include "metrics/record/request_log.hpp"
#include "metrics/record/request_record.hpp"
#include "metrics/series/exposition.hpp"
#include "metrics/vocabulary.hpp"
#include "metrics/wire/request/prefix_chain.hpp"
#include "proxy/exchange/client_side.hpp"
#include "proxy/fleet/fleet.hpp"
#include "proxy/fleet/model_directory.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/http/head.hpp"
#include "proxy/net/address.hpp"
#include "proxy/net/buffer_budget.hpp"
#include "proxy/net/channel.hpp"
#include "proxy/net/connect.hpp"
#include "proxy/net/poller.hpp"

namespace weir::proxy::exchange {

using metrics::SipKey;

/// A random key.
SipKey make_sip_key();

/// Returns whose request this is. `key_name` is the name of the client's key, "" where weir knows no keys. A request
/// without the key or the header that decides is its address's: a credential that nobody checks can be made up, and
/// must not buy a share. Of IPv6 the first 64 bits count, because one client has all that begin so.
std::uint64_t fair_key(const SipKey& key, const config::FairBy& by, const http::RequestHead& head,
                       const net::PeerAddress& address, std::string_view key_name);

/// Returns the number of the request's session: by the first of `by` that it has. 0: it has none.
std::uint64_t session_of(std::span<const config::SessionBy> by, const http::RequestHead& head,
                         const metrics::Names& names, std::string_view key_name);

/// Returns a hash of the credential that the request is sent with: of its key's name, else of what it says itself.
std::optional<std::uint64_t> credential_of(const SipKey& key, const http::RequestHead& head, std::string_view key_name);

/// Returns who sends the request, as far as it says so itself: by the name of its key, else by its credential, whoever
/// made that up, else by its address. Nothing is shared out by this.
std::uint64_t sender_of(const SipKey& key, const http::RequestHead& head, const net::PeerAddress& address,
                        std::string_view key_name);

/// Returns the seed of a prompt's prefix: prompts with equal seeds share anchors. `key_name` is as above.
std::uint64_t prefix_seed(const SipKey& key, config::PrefixIsolation isolation, std::string_view key_name);

class Shadows;
struct Waiter;

/// Returns how much of limits.buffer_memory heads may hold on all loops together until they are whole: an eighth.
inline std::size_t half_head_memory(const config::Limits& limits) { return limits.buffer_memory / 8; }

/// The random keys of hashes of what clients choose. Reloads keep them.
struct Keys {
  SipKey fair_by = make_sip_key();                              ///< See fair_key and prefix_seed.
  metrics::wire::ConversationKey conversation{make_sip_key()};  ///< See RequestFacts::conversation.
  SipKey fingerprint = make_sip_key();                          ///< Of mirrored answers.
  metrics::UniversalKey prefix{make_sip_key()};                 ///< Of the anchors of prompts.
  SipKey mark = make_sip_key();                                 ///< Of the beginnings of prompts in the request log.
};

/// Counts by the address of clients.
struct ByAddress {
  net::AddressCounts connections{};
  net::AddressShares buffers{};          ///< What it holds of the buffers.
  net::AddressShares half_heads{};       ///< What it holds by heads that are not yet whole.
  net::AddressAccounts handshake_cpu{};  ///< Seconds of CPU.
};

/// When the log last told of these: a line an hour, or a minute, is enough.
struct LastTold {
  using Line = std::atomic<metrics::Moment>;
  static constexpr metrics::Moment never{-std::chrono::hours(1)};
  Line poison{never};         ///< A poison request: see note_poison.
  Line full_share{never};     ///< An address that holds its share of memory: see serve/body.
  Line handshake_cpu{never};  ///< An address whose handshakes take too much CPU: see serve/client_connection.
};

/// State that all loops share. It is read-only, except for its atomics and members that are thread-safe themselves.
struct Shared {
  metrics::series::Exposition& exposition;
  fleet::Fleet& fleet;
  metrics::record::RequestLog& log;
  fleet::ModelDirectory& models;
  fleet::FailureNotes local_shortages{};  ///< Logs shortages of weir's own: descriptors, local ports.
  LastTold told{};
  std::atomic<bool> draining{false};        ///< Answers say `Connection: close`.
  std::atomic<bool> closing{false};         ///< Idle client connections are closed.
  std::atomic<bool> cutting{false};         ///< Requests that still run are ended.
  std::atomic<std::size_t> connections{0};  ///< Counts the client connections of all loops.
  const Keys keys{};
  net::BufferBudget buffers{fleet.snapshot()->settings.limits.buffer_memory};  ///< The loops follow a reload's limit.
  ByAddress addresses{};
  std::atomic<bool> wants_room{false};  ///< A loop found no room for a request: see net::Uploads.
  std::atomic<bool> bypass{false};      ///< New requests are relayed unread.
  Shadows* shadows = nullptr;           ///< Set before the loops run; null if nothing is mirrored.
};

/// A request under way. It leaves the list when it ends.
struct InFlight : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  explicit InFlight(metrics::Moment at) : received(at) {}
  const metrics::Moment received;
};

class Loop {
 public:
  static constexpr std::chrono::milliseconds tick_every{100};
  static constexpr std::size_t read_size = 64 * 1024;

  Loop(Shared& shared, std::size_t index);
  ~Loop();

  void run();   ///< Runs on the loop's thread until stop().
  void stop();  ///< May be called on any thread.
  /// Does what is due every `tick_every`; run() calls it.
  void tick(metrics::Moment now);

  /// Keeps a connection to a replica for the next request, within limits.idle_upstream_connections.
  void keep_idle(const fleet::SharedReplica& replica, net::Destination where, std::unique_ptr<net::Channel> connection,
                 metrics::Moment now);
  /// Returns 128 random bits in hex.
  std::string new_id();
  double random_from(double least, double most);
  /// Returns when a client is to try again that found limits.buffer_memory spent: within 1 to 2 s, so that those
  /// refused together do not come back together.
  std::chrono::milliseconds time_to_retry();
  /// Returns a read buffer for use inside one handler, with padding behind it.
  std::span<char> read_buffer() { return {buffer_.data(), read_size}; }

  Shared& shared;
  const std::size_t index;
  metrics::series::LoopShard& shard;
  net::Poller poller;
  net::Deadlines deadlines;
  net::Uploads uploads;
  /// Bounds what heads hold of the buffers until they are whole, so that bodies keep the rest: see serve/body.
  /// Each loop has its own part, so that a head finds those there that can make room for it.
  net::BufferBudget half_heads{0};
  net::ArrivalClock clock;
  net::tls::Handshaking handshaking{
      context, [this](net::tls::Side side, net::tls::Result result) {
        shard.tls_handshakes[static_cast<std::size_t>(side)][static_cast<std::size_t>(result)].add();
      }};
  std::unique_ptr<net::Connector> connector{
      std::make_unique<net::SocketConnector>(net::tls::TlsChannel::Loop{poller, clock, handshaking})};
  fleet::IdleConnections idle;
  metrics::record::FinishedRecords finished;  ///< The control thread takes them.
  ClientOutput output;                        ///< For use inside one handler.
  std::string spare_text;                     ///< Memory for a request that is read: empty, or let go by the last one.
  std::shared_ptr<Waiter> free_waiter;        ///< The next request may take it, unless another one still waits with it.
  // The acceptor places a new connection by these; this loop writes them.
  std::atomic<std::size_t> connections{0}, streams{0};
  boost::intrusive::list<InFlight, boost::intrusive::constant_time_size<false>> running;  ///< The oldest is in front.
  /// The front of `running`, as a duration since the clock's epoch, after each tick; 0 if there is none.
  std::atomic<metrics::Moment::rep> oldest_running{0};

 private:
  void await_tick();
  void note_failure(const std::exception_ptr& failure, std::string_view consequence) const;
  void look_at_deadlines(metrics::Moment now, bool begin);
  void follow_snapshot();
  void follow_limits(const config::Limits& limits);
  void make_room_for_others(metrics::Moment now);

  std::vector<char> buffer_;
  std::mt19937_64 random_;
  std::shared_ptr<const fleet::Snapshot> followed_;

 public:
  // The context's end unwinds the coroutines of all that is still under way, and they use every member above.
  boost::asio::io_context context{1};

 private:
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{context.get_executor()};
  net::Timer timer_{context.get_executor()};
};

}  // namespace weir::proxy::exchange
