// A client connection of a simulated replica: it reads a request, gives it to the engine, and writes its tokens.
//
// A session is owned by its pending operations. While an answer is sent one read stays pending, so that a client that
// leaves (FIN or reset) ends the sequence in the engine at once. Bytes that this read brings are the next request.
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "lab/engine/engine_model.hpp"
#include "lab/engine/memory.hpp"
#include "lab/net/sockets.hpp"
#include "lab/sim/answer.hpp"
#include "lab/sim/sim_replica.hpp"
#include "metrics/series/shard.hpp"

namespace weir::lab::sim {

using Moment = std::chrono::steady_clock::time_point;

enum class Status { finished, aborted, refused };

struct Truth {
  std::string request_id;                         ///< The request's x-request-id; "" if absent.
  Moment received{};                              ///< The kernel had received the last byte of the request.
  std::optional<Moment> first_token, last_token;  ///< When they were written.
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;  ///< Prompt tokens that the engine found in its KV cache.
  std::uint64_t output_tokens = 0;  ///< Tokens that the engine made.
  Status status = Status::finished;
  bool stream = false;
};

/// Writes one JSON object, without a newline.
std::string truth_line(const Truth& truth);

/// Counts and logs. One thread uses it.
class Ledger {
 public:
  /// `path` is a file, "" for no log, or "-" for standard output. Throws std::runtime_error if the file cannot be
  /// opened.
  explicit Ledger(const std::string& path);

  /// Says that one step's tokens were written. `truth` is their request as it stands with them.
  void tokens(const Truth& truth, std::uint64_t made);
  /// Says that a request has ended.
  void add(const Truth& truth);
  /// Writes the text format of Prometheus, under vLLM's names or, with `tgi`, TGI's.
  std::string metrics(const engine::EngineModel& engine, std::string_view model, bool tgi) const;

 private:
  std::ofstream file_;
  std::ostream* log_ = nullptr;  ///< Null without a log.
  double started_;               ///< Unix seconds.
  std::uint64_t prompt_tokens_ = 0;
  std::uint64_t cached_tokens_ = 0;
  std::uint64_t output_tokens_ = 0;
  std::array<std::uint64_t, 3> requests_{};  ///< Indexed by Status.
  metrics::series::Histogram time_to_first_token_;
  metrics::series::Histogram time_per_output_token_;
};

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
