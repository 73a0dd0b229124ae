// Reads which model a request names where its body is no plain JSON: a form (multipart/form-data, as uploads of audio
// and pictures have it), or a body behind gzip or deflate. Only routing uses it; what engines are sent stays as it is.
//
// Memory and work are bounded: a form is searched once, where it lies; of a coded body the first 64 KiB of its text
// are looked at, in memory that all requests of a thread share. A model that does not stand there counts as none.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "metrics/moment.hpp"
#include "proxy/exchange/client_request.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/http/head.hpp"
#include "proxy/net/buffer_budget.hpp"
#include "proxy/serve/client_connection.hpp"

namespace weir::proxy::serve {

/// Looks for the field `model` of a form that comes piece by piece. Any split gives the same.
class FormModel {
 public:
  explicit FormModel(std::string_view boundary) : delimiter_("\r\n--" + std::string(boundary)) {}

  /// Goes on where the last call ended. `form` is all that has come, and costs time linear in what is new.
  void read(std::string_view form);
  /// Returns the last field of that name, as frameworks do; "" if there is none, or if it is no name of a model: longer
  /// than 128 bytes, a file, or with control characters.
  const std::string& model() const { return model_; }

 private:
  bool read_part(std::string_view form, std::size_t begin);

  std::string delimiter_;
  std::size_t at_ = 0;  ///< All before it has been read.
  std::string model_;
  bool ended_ = false;
};

class BodyModel {
 public:
  /// The head says what the body is.
  explicit BodyModel(const http::RequestHead& head);

  /// Goes on in a body of which so much has come. Coded bodies are read at their end.
  void read(std::string_view body) {
    if (form_ && coding_ == Coding::none) form_->read(body);
  }
  /// Returns the model that the whole body names; "" if it is plain JSON, or cannot be read. Call it once. A coded body
  /// takes half a millisecond at most.
  std::string take(std::string_view body);

  /// So much of a coded body's text is looked at.
  static constexpr std::size_t most_decoded = std::size_t{64} * 1024;

 private:
  enum class Coding : std::uint8_t { none, gzip, deflate, unknown };
  Coding coding_ = Coding::none;
  std::optional<FormModel> form_;
};

// The memory of one request's body while it is read, and how fast its bytes come. A long head has one, too.
//
// Room is taken of limits.buffer_memory, within the shares of the client's address and key. Where it is spent, the
// slowest body of the loop ends, not the one that asks. Heads have a part of the memory (half_head_memory): nobody
// needs a key to send the half of one, so all of them together leave most of it to bodies. Only the loop's thread uses
// it.

/// Returns over which stretches a body has to keep limits.body_rate. A short pause is no offence.
inline metrics::Nanoseconds body_window(const config::Limits& limits) {
  return std::max<metrics::Nanoseconds>(std::chrono::seconds(10), metrics::ticks(limits.body_time / 2));
}

class BodyRoom final : net::Upload {
 public:
  /// The arguments outlive the room. `settings` are those of the request's snapshot.
  BodyRoom(exchange::Loop& loop, ClientConnection& client, const config::Settings& settings,
           exchange::ClientMessage& message, const exchange::ClientIdentity& identity);
  BodyRoom(const BodyRoom&) = delete;
  BodyRoom& operator=(const BodyRoom&) = delete;

  /// Makes room for more of the body: twice what is there, but no more than it may have. Returns the limit that bit, if
  /// there is none.
  std::optional<metrics::series::Limit> make_room(std::size_t more);
  /// Pays for what is there of a head. Returns the limit that bit, if there is no room.
  std::optional<metrics::series::Limit> pay_for_head(bool is_whole);
  /// Returns the limit that bites if nothing new may begin.
  std::optional<metrics::series::Limit> may_begin();
  void received(metrics::Moment now, std::size_t bytes) { lately_.add(now, bytes); }
  metrics::Moment behind_at(std::size_t rate) const { return lately_.behind_at(rate); }
  /// True once it has ended for others: its memory is given back, and nothing more is to be read.
  bool gave_way() const { return gave_way_; }

 private:
  std::uint64_t recent(metrics::Moment now) override { return lately_.recent(now); }
  std::size_t reserved() const override { return message_.budget_hold.reserved(); }
  bool is_head() const override { return half_head_.reserved() > 0; }
  bool is_new(metrics::Moment now) const override { return now - begun_ < std::chrono::milliseconds(2500); }
  void give_way() override;
  void join_shares();
  bool has_share() const;
  std::optional<metrics::series::Limit> charge(std::size_t bytes);

  exchange::Loop& loop_;
  ClientConnection& client_;
  const config::Settings& settings_;
  exchange::ClientMessage& message_;
  const exchange::ClientIdentity& identity_;
  const metrics::Moment begun_;
  net::RateWindow lately_;
  net::SharedBudgetHold half_head_{loop_.half_heads};  ///< Of a head alone, beside the message's own hold.
  bool joined_ = false, gave_way_ = false;
};

}  // namespace weir::proxy::serve
