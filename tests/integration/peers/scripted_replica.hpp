// A replica that plays a script: a handler is called for each request and decides byte by byte what the peer sees.
//
// Each connection has a thread of its own, on which the handler blocks as it likes. All requests are kept as received.
// A handler that returns with the connection open has answered: the next request on it is read. If a handler throws
// anything but PeerGone, the test fails.
//
// weir asks every replica for its models, its health and its own pages now and then, on connections of their own. Such
// requests are neither kept nor counted: a probe of /health is answered 200, and a page 404 unless the test gives the
// replica one. The one for models goes to the handler if a test wants to see it. A test that wants to see probes sets
// another path.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/integration/peers/event.hpp"
#include "tests/integration/peers/message.hpp"
#include "tests/integration/peers/socket.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {

struct ReceivedRequest {
  std::string method, target, version;
  Head head;
  std::string body;               ///< The body without its framing.
  std::size_t number = 0;         ///< 1 for the first request this replica saw.
  std::size_t connection = 0;     ///< 1 for the first connection.
  std::size_t on_connection = 0;  ///< 1 for the first request of its connection.
};

/// The replica's side of one request. Every call may throw PeerGone when weir has left.
class Exchange {
 public:
  const ReceivedRequest& request() const { return request_; }

  void send(std::string_view bytes) { socket_.send(bytes); }
  /// Sends each byte in a segment of its own.
  void send_bytewise(std::string_view bytes);
  /// Like send(), but sets `stalled` when the peer has taken nothing for half a second, and counts what went out.
  void send_until_taken(std::string_view bytes, Progress& sent, Event& stalled);

  /// Waits until the peer closes, and returns when that was.
  Clock::time_point wait_for_close() { return socket_.wait_for_close(); }
  /// Waits until the peer's system has all that was sent: see Socket.
  void wait_until_taken() const { socket_.wait_until_taken(); }
  void reset() { socket_.reset(); }
  void close() { socket_.close(); }  ///< Sends a FIN, not an RST, because the request has been read whole.
  void finish_sending() { socket_.finish_sending(); }
  void small_send_buffer() { socket_.small_send_buffer(); }

 private:
  friend class ScriptedReplica;
  Exchange(Socket& socket, ReceivedRequest request) : socket_(socket), request_(std::move(request)) {}
  Socket& socket_;
  ReceivedRequest request_;
};

class ScriptedReplica {
 public:
  using Handler = std::function<void(Exchange&)>;

  enum class ModelsQuestion { answered_unseen, to_handler };

  /// `port` 0 lets the system choose. The address is 127.0.0.`machine`.
  explicit ScriptedReplica(Handler handler, ModelsQuestion models = ModelsQuestion::answered_unseen,
                           std::uint16_t port = 0, unsigned machine = 1);
  ~ScriptedReplica();
  ScriptedReplica(const ScriptedReplica&) = delete;
  ScriptedReplica& operator=(const ScriptedReplica&) = delete;

  /// `handler` is called for each request of a client when its head has been read and its body has not. It may close
  /// the connection; else the body is read, and the other handler is called. It is set before the first request.
  void at_each_head(Handler handler) { at_head_ = std::move(handler); }
  /// Its connections hold little that it has not read.
  void small_receive_buffers() { listener_.small_receive_buffer(); }
  /// The next connections are reset as soon as they are accepted.
  void resets_connections(std::size_t n) { to_reset_ = n; }

  std::uint16_t port() const { return port_; }
  std::string url() const { return url_of(port_); }
  /// Answers weir's own GETs of `path` with this from now on, whole answers as bytes.
  void has_page(const std::string& path, std::string answer);
  /// Answers each GET of a page only after so long.
  void answers_pages_after(std::chrono::milliseconds time) { page_delay_ = time; }
  /// Returns how often weir has asked for a page of the replica's own.
  std::size_t asked_for(const std::string& path) const;
  std::vector<ReceivedRequest> requests() const;
  /// Returns the only request that came. Fails the test if there were none or several.
  ReceivedRequest only_request() const;
  /// Counts connections on which a request came.
  std::size_t connections() const { return connections_.value(); }
  /// Waits until so many requests have been received whole.
  void wait_for_requests(std::size_t n) const { received_.wait_for(n, "requests at the replica"); }
  std::size_t probes() const { return probes_.value(); }
  /// Waits until so many probes of /health have been answered.
  void wait_for_probes(std::size_t n) const { probes_.wait_for(n, "probes at the replica"); }

 private:
  void accept_all();
  void answer_page(Socket& socket, const std::string& path);
  void serve(Socket socket);
  std::optional<ReceivedRequest> receive(MessageReader& reader, Socket& socket);

  Handler handler_, at_head_;
  std::atomic<std::size_t> to_reset_{0};
  ModelsQuestion models_;
  int called_off_;
  Socket listener_;
  std::uint16_t port_;
  mutable std::mutex mutex_;
  std::vector<ReceivedRequest> requests_;
  std::map<std::string, std::string> pages_;
  std::map<std::string, std::size_t> pages_asked_;
  std::atomic<std::chrono::milliseconds> page_delay_{};
  struct Serving {
    std::thread thread;
    std::atomic<bool> done{false};
  };
  std::list<Serving> serving_;
  Progress received_, connections_, probes_;
  std::thread acceptor_;
};

}  // namespace weir::integration
