// A client connection of a simulated replica: it reads a request, gives it to the engine, and writes its tokens.
//
// A session is owned by its pending operations. While an answer is sent one read stays pending, so that a client that
// leaves (FIN or reset) ends the sequence in the engine at once. Bytes that this read brings are the next request.
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "lab/engine/cache_report.hpp"
#include "lab/net/stamped_socket.hpp"
#include "lab/sim/answer.hpp"
#include "lab/sim/engine_loop.hpp"
#include "lab/sim/truth.hpp"

namespace weir::lab::sim {

class Session;

/// The state that the sessions of a replica share.
struct Replica {
  EngineLoop& engine;
  Ledger& ledger;
  std::string model;
  bool tgi_metrics;
  engine::CacheReport cache_report;
  bool thoughts;  ///< Engines made thoughts before each answer that later prompts do not repeat.
  engine::Random random;
  engine::SequenceId next_id = 1;
  std::unordered_set<Session*> sessions{};
};

class Session : public Listener, public std::enable_shared_from_this<Session> {
 public:
  Session(boost::asio::ip::tcp::socket socket, Replica& replica);
  ~Session() override;
  void start();
  /// Closes the connection. A request in the engine is aborted, and logged as aborted.
  void close();
  void on_token(const engine::TokenEvent& event) override;

 private:
  static constexpr std::size_t body_limit = 64 * 1024 * 1024;
  static constexpr std::size_t pipelined_limit = 64 * 1024;

  void read_request();
  void on_head(boost::system::error_code ec);
  void read_body();
  void on_request(boost::system::error_code ec);
  void dispatch();
  void infer(Route route);
  void refuse(Route route, const Refusal& refusal, Truth truth);
  void respond(unsigned status, std::string_view content_type, std::string_view body);
  void watch();
  void on_watched(boost::system::error_code ec, std::size_t n);
  void flush();
  void next_if_answered();
  bool keeps_prefixes() const {
    return replica_.engine.model().settings().prefix_caching != engine::PrefixCaching::none;
  }

  /// A request in the engine.
  struct Generation {
    engine::SequenceId id;
    Answer answer;
    Truth truth;
  };

  net::StampedSocket socket_;
  Replica& replica_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  std::optional<Generation> generation_;
  std::string out_;               ///< Bytes that have not yet been handed to the kernel.
  std::string writing_;           ///< An asynchronous write works on these bytes; it is empty if there is none.
  bool answering_ = false;        ///< True from when a request is read whole until its answer is written whole.
  bool answer_complete_ = false;  ///< The whole answer is in out_, or further on its way.
  bool watching_ = false;         ///< A read is pending beside the answer.
  bool keep_alive_ = true;
  bool closed_ = false;
};

}  // namespace weir::lab::sim
