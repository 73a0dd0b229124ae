// A client asks once on a connection of its own, on a thread of its own, and keeps every byte that it got.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace weir::model {

/// A request, by the name `id`.
struct Request {
  std::string id;
  std::string key = {};         ///< The key's name; "" if none is shown.
  std::string credential = {};  ///< The credential that is shown.
  std::string target = {};      ///< "": an inference request.
  std::string what = {};        ///< The engine's part: hold, short, bad, slow.
  std::string model = "m";
  bool streams = true;
  bool is_denied = false;  ///< The key may not use this model.
  bool stalls = false;     ///< The body's end is never sent.
  std::string bytes() const;
};

struct Answer {
  unsigned status = 0;
  std::string replica;  ///< The value of x-weir-replica.
  std::string head, body;
  bool whole = false;  ///< The framing is complete.
};

/// Its methods are for one thread.
class Client {
 public:
  Client(std::uint16_t port, Request request);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Request& asked() const { return request_; }
  bool is_answered() const { return status_ != 0; }
  bool has_ended() const { return ended_; }
  bool has_left() const { return leaves_; }
  /// An answer 200 has begun, and has not ended.
  bool is_under_way() const { return status_ == 200 && !ended_; }
  /// Nothing has come yet.
  bool waits() const { return status_ == 0 && !ended_; }
  /// Returns the replica that answers, as x-weir-replica says; "" if none is known yet.
  std::string replica() const;
  /// Leaves at its next look, some milliseconds later.
  void leave() { leaves_ = true; }
  /// Returns what has come by now.
  Answer answer() const;

 private:
  void run(std::uint16_t port);

  const Request request_;
  std::atomic<unsigned> status_{0};
  std::atomic<bool> leaves_{false}, ended_{false};
  mutable std::mutex mutex_;
  std::string got_, replica_;
  std::thread thread_;
};

/// Returns "" if the body is a whole stream of this request's own tokens, or what is wrong with it.
std::string flaw_of_stream(const std::string& id, const std::string& body);

}  // namespace weir::model
