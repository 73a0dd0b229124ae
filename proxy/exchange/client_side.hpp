// The client's half of an attempt, as a machine without I/O. It turns what the replica's half brings into the bytes of
// an answer in the client's framing. The answer is held until it is accepted, or kept as an error answer that a better
// one may replace. One thread uses it; between calls it keeps the head and what is held.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/settings.hpp"
#include "metrics/moment.hpp"
#include "metrics/series/shard.hpp"
#include "metrics/vocabulary.hpp"
#include "proxy/http/writing.hpp"
#include "proxy/net/buffer_budget.hpp"
#include "proxy/net/channel.hpp"

namespace weir::proxy::exchange {

using metrics::Moment;

/// A comment in an event stream, as a chunk: it shows whatever stands between weir and the client that the stream
/// lives.
inline constexpr std::string_view comment_chunk = "13\r\n: weir keep-alive\n\n\r\n";

class EarlyHead {
 public:
  /// `head` promises a chunked event stream, and says whether the connection stays open. `begun` is set once bytes may
  /// be on their way.
  EarlyHead(std::string head, bool keep_alive, std::chrono::steady_clock::duration interval, Moment since, bool& begun)
      : text_(std::move(head)), keep_alive_(keep_alive), interval_(interval), last_(since), answered_(begun) {
    text_ += comment_chunk;
  }

  /// Returns when bytes are to be written, if nothing else is until then.
  Moment due() const { return last_ + interval_; }
  /// Returns what is to be written: the head and a comment, and later a comment alone. Valid until the next call.
  std::string_view bytes() const { return begun_ ? comment_chunk : std::string_view(text_); }
  /// Says that these bytes were written.
  void written(Moment now) {
    last_ = now;
    begun_ = answered_ = true;
  }
  /// Says that the client takes no bytes now.
  void put_off(Moment now) { last_ = now; }

  bool begun() const { return begun_; }
  bool keep_alive() const { return keep_alive_; }

 private:
  std::string text_;
  const bool keep_alive_;
  const std::chrono::steady_clock::duration interval_;
  Moment last_;
  bool& answered_;
  bool begun_ = false;
};

/// Lists what to write to the client, in order. The loop owns it and uses it again, so no token allocates.
class ClientOutput {
 public:
  std::vector<std::string_view> spans;

  void clear();
  /// Adds the size line of a chunk. One output has at most two: for what came, and for an error event of weir's own.
  void add_chunk_head(std::size_t size);
  std::size_t size() const;

 private:
  std::array<std::array<char, 20>, 2> chunk_heads_{};
  std::size_t chunk_heads_used_ = 0;
};

class ClientFramer {
 public:
  /// The client and its request, as far as framing needs them.
  struct Client {
    bool http_1_1 = true;
    bool keep_alive = true;
    metrics::Api api = metrics::Api::other;  ///< Shapes weir's error event.
    std::string_view request_id{};
    std::string_view weir_id{};
    std::string_view replica{};  ///< For x-weir-replica; empty: none.
    /// An event stream that is silent for so long gets a comment; 0: none.
    std::chrono::steady_clock::duration comments_after{};
    EarlyHead* early = nullptr;                     ///< Null if no head goes out before a replica's.
    std::optional<std::string_view> cors_fields{};  ///< Replace the replica's CORS fields, by server.cors_origins.
  };

  enum class State : std::uint8_t {
    no_head,
    holding,  ///< Nothing has been written.
    open,     ///< The head is on its way to the client.
    whole,    ///< The body came to the end of its framing.
    cut,      ///< The body was cut: the client's connection must not end it in good order.
  };

  explicit ClientFramer(const Client& client) : client_(client) {}

  /// Takes the replica's final head. `strips` says that bytes may be taken out of the body, so that its length is not
  /// known.
  void head(const http::ResponseHead& head, bool strips, bool event_stream);
  /// The body continues the stream whose head weir has sent. That head stands for the replica's.
  void continue_early();
  /// Releases the head and what is held. The answer then belongs to the client.
  void open(ClientOutput& out);
  /// Frames body bytes, or holds them. `read` is the buffer of the current read. Framing may be written there, around a
  /// body that lies in it.
  void body(std::span<const std::string_view> body, std::span<char> read, ClientOutput& out);
  /// Adds an SSE comment of weir's own, by which whatever is between weir and the client sees life. It counts nowhere.
  void comment(ClientOutput& out);
  /// Ends the body in good order.
  void finish(ClientOutput& out);
  /// Ends the body early. With `why`, an error event of weir's own is added if the framing allows it.
  void cut(std::string_view why, ClientOutput& out);
  /// Ends a body that is shorter than the promised length: its connection is of no further use.
  void cut_if_length_promised();
  /// Says that the client has gone.
  void lost() { progress_.state = State::cut; }

  /// How far the answer is.
  struct Progress {
    State state = State::no_head;
    http::ClientFraming framing = http::ClientFraming::none;
    bool opened = false;
    std::uint64_t bytes_out = 0;  ///< Counts the body only.
  };
  const Progress& progress() const { return progress_; }
  /// Says that the output has been written, or copied, and frees what only that needed. Returns true if there was
  /// anything to write since the last call.
  bool written();
  /// Returns after how much silence an event stream gets a comment, if it may have one. A client of HTTP/1.0 gets none.
  std::optional<std::chrono::steady_clock::duration> comments_after() const {
    const bool may = client_.comments_after.count() > 0 && progress_.state == State::open;
    return may && progress_.framing == http::ClientFraming::chunked ? std::optional(client_.comments_after)
                                                                    : std::nullopt;
  }
  std::size_t buffered() const { return buffered_.size(); }
  /// True if the client's connection may serve another request.
  bool reusable() const { return progress_.opened && progress_.state != State::cut && keep_alive_; }

 private:
  bool frame_in_place(std::string_view body, std::span<char> read, ClientOutput& out);

  Client client_;
  std::string head_;      ///< Kept until it is written.
  std::string buffered_;  ///< Body bytes that wait for acceptance.
  std::string released_;  ///< Released bytes that are being written.
  std::string closing_;   ///< weir's closing error event.
  Progress progress_;
  bool keep_alive_ = true, wrote_ = false;
};

// How fast a client takes what weir has for it, while it owes: from when bytes of an answer had no room in its socket
// until they have gone. A client that takes nothing for limits.client_stall, or less than limits.answer_rate over that
// time, has lost its place.
//
// A pace belongs to one thread. No clock is read; a look costs a system call.

class ClientPace {
 public:
  /// Until now the client had nothing to take: its stall and its rate count only from here on.
  void begin(metrics::Moment now, const net::Channel& client, const config::Limits& limits);
  /// Counts what the client has taken, now that so much more was written.
  void took(metrics::Moment now, std::size_t written, const net::Channel& client);
  /// Looks at the client. Returns the limit that it has hit, if any.
  std::optional<metrics::series::Limit> limit_hit(metrics::Moment now, const net::Channel& client,
                                                  const config::Limits& limits);
  /// Returns when the client is to be looked at: once a step of the window, or when it will be behind.
  metrics::Moment next_look(const config::Limits& limits) const;

 private:
  net::RateWindow taken_;  ///< So much the client's system has acknowledged.
  metrics::Moment progress_{}, looked_{};
  int unacknowledged_ = 0;  ///< So many bytes were unacknowledged at the last look.
};

// Watches a client from its request's last byte to the end of its exchange, wherever the request is: whether the client
// has gone, what it already sends of a following request (pipelining), and when it takes bytes again.

class ClientWatch final : net::Watcher {
 public:
  /// So many bytes of a following request are read while an answer is sent.
  static constexpr std::size_t most_unread = 4 * 1024;

  /// A listener wants to know while it works for the client.
  class Listener {
   public:
    virtual void client_gone() = 0;
    virtual void client_writable() = 0;

   protected:
    ~Listener() = default;
  };

  /// `unread` takes the bytes of following requests; it and the channel outlive the watch. `half_close` says whether a
  /// client that ends its direction has left.
  ClientWatch(net::Channel& channel, std::string& unread, config::HalfClose half_close = config::HalfClose::abort);
  ~ClientWatch() { channel_.watch(nullptr); }
  ClientWatch(const ClientWatch&) = delete;
  ClientWatch& operator=(const ClientWatch&) = delete;

  net::Channel& channel() { return channel_; }
  bool gone() const { return gone_; }
  /// Tells the listener from now on; null means nobody. A listener that starts late asks gone() first.
  void listen(Listener* listener) { listener_ = listener; }

 private:
  void ready(std::uint32_t tag, std::uint32_t events) override;
  void look_at(std::uint32_t events);
  void leave();
  void prefetch(std::uint32_t, int) const override {}

  net::Channel& channel_;
  std::string& unread_;
  Listener* listener_ = nullptr;
  const bool fin_is_leaving_;
  bool gone_;
};

}  // namespace weir::proxy::exchange
