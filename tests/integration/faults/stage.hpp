// The stage of one cell of the fault matrix: a weir of its own, one replica or two, clients whose requests have names,
// and the rules that hold after every fault. expect_rest() checks them.
//
// The replicas misbehave to requests that say x-strike, so often as the stage is told, and are well otherwise.
#pragma once

#include <atomic>
#include <functional>
#include <iterator>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/integration/faults/cell.hpp"
#include "tests/integration/peers/leaving.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/tls_bridge.hpp"
#include "tests/integration/peers/weir_under_test.hpp"

namespace weir::integration {

/// A socket of weir's and one of a replica with a small buffer do not hold so much.
inline constexpr std::size_t does_not_fit = 6 * 1024 * 1024;

/// A request as its client saw it.
struct Asked {
  std::string id;  ///< The x-request-id, and so the log's client_id.
  std::unique_ptr<HttpClient> own;
  HttpClient* client = nullptr;
  Response got;
  bool has_head = false;
  bool left = false;  ///< The client left, so what it has is what it happened to read.
};

class Stage {
 public:
  using Strike = std::function<void(Exchange&, Stage&)>;

  struct Wishes {
    Transport transport = Transport::plain;
    std::size_t replicas = 1;
    Keys limits = {};
    Keys server = {};
    Keys pool = {};
    Keys of_replica = {};
    Strike at_head = {};         ///< The replica does this when it has read only the head.
    Strike strike = {};          ///< The replica does this when it has the request whole.
    std::string other_url = {};  ///< A replica that is not scripted comes first.
    bool half_closes = false;    ///< With TLS, what ends its direction goes on reading: see Bridge.
  };

  explicit Stage(Wishes wishes);

  enum class Kind : std::uint8_t { well, struck };
  std::unique_ptr<HttpClient> http_client(int receive_buffer = 0) const;
  /// Returns a request under a new name. With `body_bytes` its prompt is so long.
  std::string request(Kind kind, Asked& asked, std::size_t body_bytes = 0);
  /// Sends a request on `client`, or on a connection of its own.
  Asked& send(Kind kind, std::size_t body_bytes = 0, HttpClient* client = nullptr);
  /// Names a request that the test sends in its own way.
  Asked& asked(HttpClient* client = nullptr);
  /// Reads the answer to its end, and tells the replica how far it is.
  void read(Asked& asked);
  /// Reads until so many events are there.
  void read_events(Asked& asked, std::size_t events);
  /// Reads at least one more byte of the body. Returns false when it has ended.
  bool read_more(Asked& asked);
  /// Sends a request that is answered well.
  Asked& well(HttpClient* client = nullptr);

  void wait_for(std::string_view gauge, double value) const;
  void wait_for_struck(std::size_t n) const { struck_.wait_for(n, "the replica to misbehave"); }
  /// Waits until a replica has seen that its connection was closed, and returns when that was.
  Clock::time_point wait_for_closed(std::size_t n) { return closes_.wait_for(n); }

  // For a strike.
  void go_on() { go_on_.set(); }
  void wait_until_told() { go_on_.wait("the test to go on"); }
  /// Returns how many bytes of answers all clients have.
  std::size_t bytes_at_client() const { return client_has_.value(); }
  void wait_for_client(std::size_t bytes) const { client_has_.wait_for(bytes, "bytes at the client"); }
  void client_has_whole() { whole_at_client_.add(1); }
  void wait_for_whole(std::size_t n) const { whole_at_client_.wait_for(n, "the whole answer at the client"); }
  void saw_close(Clock::time_point at) { closes_.saw(at); }
  /// weir has what came on its idle connection.
  void idle_connection_is_spoilt() { spoilt_.set(); }
  void wait_until_spoilt() { spoilt_.wait("bytes on an idle connection"); }
  /// Returns what the replica plays to which an exchange belongs.
  const StreamScript& script_of(const Exchange& exchange) const;

  WeirUnderTest& weir() { return *weir_; }
  ScriptedReplica& replica(std::size_t index) {
    return *std::next(replicas_.begin(), static_cast<std::ptrdiff_t>(index))->peer;
  }
  /// Ends a replica, connections and all, and returns its port.
  std::uint16_t end_replica(std::size_t index);
  void strikes(std::size_t n) { strikes_left_ = n; }
  std::size_t descriptors() const { return weir_->process().open_descriptors(); }

  /// Returns "outcome phase status" of a request, as the log and its client have it.
  std::string end_of(const Asked& asked);
  void expect_end(const Asked& asked, std::string_view expected);
  /// Checks what holds after every fault. It ends weir.
  void expect_rest();

 private:
  struct Player {
    StreamScript script;
    std::unique_ptr<ScriptedReplica> peer;
    std::unique_ptr<Bridge> bridge;
    std::uint16_t port() const { return bridge ? bridge->port() : peer->port(); }
  };
  void serve(Exchange& exchange, const Player& player);
  bool takes_strike(const Exchange& exchange);
  boost::json::object line_of(const Asked& asked);
  void expect_right_bytes(const Asked& asked, const boost::json::object& line) const;
  void expect_books(std::size_t requests);
  std::size_t descriptors_at_rest() const;

  Wishes wishes_;
  Event go_on_, spoilt_;
  Progress struck_, client_has_, whole_at_client_;
  CloseTimes closes_;
  std::atomic<std::size_t> strikes_left_{1};
  std::list<Player> replicas_;
  std::vector<std::string> urls_;
  std::optional<WeirUnderTest> weir_;
  std::optional<Bridge> to_weir_;
  std::size_t baseline_ = 0;
  std::list<Asked> asked_;
};

}  // namespace weir::integration
