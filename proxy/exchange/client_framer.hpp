// The client's half of an attempt, as a machine without I/O: what the replica's half brings becomes the bytes of an
// answer in the client's framing, held until the answer is accepted, or put by as an error answer that a better one may
// replace. One thread; between calls it keeps the head and what is held.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/vocabulary.hpp"
#include "proxy/http/cors_memory.hpp"
#include "proxy/http/rewrite.hpp"

namespace weir::proxy::exchange {

/// What to write to the client, in order. Owned by the loop and used again: no allocation a token.
class ClientOutput {
 public:
  std::vector<std::string_view> spans;

  void clear();
  /// The size line of a chunk; at most two in one output (what came, and an error event of weir's own).
  void add_chunk_head(std::size_t size);
  std::size_t size() const;

 private:
  std::array<std::array<char, 20>, 2> chunk_heads_{};
  std::size_t chunk_heads_used_ = 0;
};

class ClientFramer {
 public:
  /// What is known of the client and of its request.
  struct Client {
    bool http_1_1 = true;
    bool keep_alive = true;
    metrics::Api api = metrics::Api::other;  ///< Shapes an error event of weir's own.
    std::string_view request_id{};
    std::string_view weir_id{};
    std::string_view replica{};        ///< For x-weir-replica; "" = not to be named.
    http::CorsMemory* cors = nullptr;  ///< It is told the head that goes to `origin`.
    std::string_view origin{};
  };

  enum class State : std::uint8_t {
    no_head,
    holding,  ///< Nothing has been written.
    open,     ///< The head is on its way to the client.
    whole,    ///< The body came to the end of its framing.
    cut,      ///< The body was cut: the client's connection must not end it in good order.
  };

  explicit ClientFramer(const Client& client) : client_(client) {}

  /// Frees what only the output of the call before needed. To be called first with each new output.
  void begin(ClientOutput& out);

  /// The replica's final head. `strips`: bytes may be taken out of the body, so that its length is not known.
  void head(const http::ResponseHead& head, bool strips, bool event_stream);
  /// Lets the head go, and what is held. From here on the answer is the client's.
  void open(ClientOutput& out);
  /// Frames body bytes, or holds them. `read` is the buffer of the read under way, where framing may be written around
  /// a body that lies in it.
  void body(std::span<const std::string_view> body, std::span<char> read, ClientOutput& out);
  /// The body is over, in good order.
  void finish(ClientOutput& out);
  /// Ends the body before its end. With `why`, an error event of weir's own is added where the framing lets it.
  void cut(std::string_view why, ClientOutput& out);
  /// The body is over, yet less than the length that was promised: its connection is of no further use.
  void cut_if_length_promised();
  /// The client has gone.
  void lost() { state_ = State::cut; }

  State state() const { return state_; }
  bool was_opened() const { return opened_; }
  std::size_t held() const { return held_.size(); }
  http::ClientFraming framing() const { return framing_; }
  /// The client's connection may serve another request.
  bool reusable() const { return opened_ && state_ != State::cut && keep_alive_; }
  std::uint64_t bytes_out() const { return bytes_out_; }  ///< Of the body.

 private:
  bool frame_in_place(std::string_view body, std::span<char> read, ClientOutput& out);

  Client client_;
  std::string head_;      ///< Until it is written.
  std::string held_;      ///< Body bytes that wait for acceptance.
  std::string released_;  ///< What was held, while it is being written.
  std::string closing_;   ///< An error event of weir's own.
  std::uint64_t bytes_out_ = 0;
  http::ClientFraming framing_ = http::ClientFraming::none;
  State state_ = State::no_head;
  bool keep_alive_ = true, opened_ = false;
};

}  // namespace weir::proxy::exchange
