// Handles the answer of one attempt at a request, without I/O: joins the replica's half and the client's half, and has
// the rules between them. The relay tells what happened, makes the system calls, and writes what the handler fills in.
//
// A streamed answer is held until its first event, for at most limits.accept_hold, because engines answer 200 before
// they know whether they can. An event that only opens an answer is held, too: SGLang sends one before it refuses the
// request. An error that another replica may better is kept, up to `most_kept` bytes and for `kept_within`. A larger or
// slower one leaves the attempt undecided: whoever runs it says whether another replica is asked. Once an answer is
// accepted, nothing is tried again. An event stream whose client has got nothing for some time gets a comment between
// two events: balancers in front of weir cut connections that are silent for a minute. Where weir has sent a head
// before any replica (client_side.hpp), an answer that does not fit behind it is kept, for its client to be told inside
// the stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "balancer/story/attempt.hpp"
#include "proxy/exchange/client_side.hpp"
#include "proxy/exchange/replica_side.hpp"
#include "proxy/fleet/snapshot.hpp"

namespace weir::proxy::exchange {

class AnswerHandler {
 public:
  struct Options {
    ReplicaSide::Options replica;
    ClientFramer::Client client{};
    /// Belongs to the replica: see fleet::SharedReplica. Null means that the request stays where it is.
    const fleet::LeaveSigns* leaves = nullptr;
    bool keep_errors = false;  ///< An error that another replica may better is kept, not relayed.
    bool doubted = false;      ///< The replica may be the odd one: another one may better any refusal of it.
  };

  enum class State : std::uint8_t {
    awaiting,   ///< No answer is accepted yet.
    keeping,    ///< An error answer is being kept.
    undecided,  ///< The error cannot be kept: settle_error() has to follow.
    accepted,   ///< The answer is being sent to the client.
    done,       ///< The replica's work is done.
  };

  static constexpr std::size_t most_kept = 64 * 1024;
  static constexpr std::chrono::seconds kept_within{1};

  AnswerHandler(const Options& options, balancer::Lease&& lease, metrics::series::ReplicaShard& shard);

  /// Takes the bytes of one read: see ReplicaSide. Fills `out`; views in it are valid until the next call.
  void arrived(std::span<char> bytes, Moment at, ClientOutput& out);
  /// Says that the replica's connection ended by itself.
  void replica_ended(story::End how, Moment now, ClientOutput& out);
  /// Says that the client gets no more: it has gone, or limits.drain is over (`why` is rejected) and the replica's work
  /// is done.
  void client_gone(Moment now, metrics::Outcome why = metrics::Outcome::client_abort);
  /// Says that the last output was written to the client: `at_once` if the call took the whole of it.
  void written(Moment now, bool at_once);
  /// See ReplicaSide::paused.
  void paused(bool unread) { replica_side_.paused(unread); }
  void prefetch(int ahead) const { replica_side_.prefetch(ahead); }

  /// Returns when deadline_passed should be called, if nothing else happens first.
  Moment deadline() const;
  void deadline_passed(Moment now, ClientOutput& out);

  /// In State::undecided: with `leave` another replica is asked, and nothing of this answer is kept; else the error is
  /// relayed as it comes. An answer that does not fit behind the head that weir has sent is left in any case.
  void settle_error(bool leave, Moment now, ClientOutput& out);

  State state() const { return state_; }
  /// True once an answer's head is on its way to the client: no retry follows.
  bool accepted() const { return accepted_; }
  /// Returns the status that the answer stands for: an error inside a 200 stream may name one.
  unsigned told_status() const {
    const unsigned in_band = replica_side_.answer().in_band_status;
    return in_band != 0 ? in_band : report_.status;
  }
  /// Returns how many bytes of the answer are held: see ReplicaSide::kept, and what waits for acceptance.
  std::size_t buffered() const {
    return replica_side_.kept() + framer_.buffered() + (report_.kept ? report_.kept->capacity() : 0);
  }

  /// Returns what is known of the attempt. The relay adds what it alone knows, such as the moment at which the
  /// request's first byte was written (tS).
  story::AttemptReport& report() { return report_; }
  /// To be called once the attempt has ended and the client has taken its bytes.
  story::AttemptOver take_over();

 protected:
  // Tests look at them while the attempt is under way.
  const ReplicaSide& replica() const { return replica_side_; }
  const ClientFramer& client() const { return framer_; }

 private:
  void take(ReplicaSide::Progress progress, std::span<char> read, Moment at, ClientOutput& out);
  void take_head(const ReplicaSide::Progress& progress, Moment at, ClientOutput& out);
  void accept(ClientOutput& out);
  void keep(metrics::Retry reason, Moment now);
  void conclude(story::End end, ClientOutput& out);
  void keep_output(ClientOutput& out);
  void give_up_error(story::End end);
  void stop(story::End end, story::Reply reply);
  bool is_left_since(std::atomic<Moment> fleet::LeaveSigns::* sign) const;
  bool is_hung() const { return is_left_since(&fleet::LeaveSigns::hung_at); }
  bool is_left() const { return is_hung() || is_left_since(&fleet::LeaveSigns::asleep_at); }
  Moment comment_at() const;
  Moment early_at() const;
  bool fits_early() const;

  ReplicaSide replica_side_;
  ClientFramer framer_;
  metrics::series::ReplicaShard& shard_;
  const config::Limits& limits_;
  const fleet::LeaveSigns* const leaves_;
  EarlyHead* const early_;
  const Moment started_;
  const bool keep_errors_, doubted_;

  Moment keep_until_ = Moment::max();
  Moment read_at_{};                         ///< The read whose output is being written arrived then.
  Moment written_at_{};                      ///< The client was last written to then.
  std::optional<story::End> undecided_end_;  ///< In State::undecided it says that the answer is there to its end.
  std::uint32_t read_token_events_ = 0;
  State state_ = State::awaiting;
  bool accepted_ = false;
  bool is_misfit_ = false;  ///< The answer can only be kept: it does not fit behind the head that weir has sent.
  bool client_has_marker_ = false;  ///< The answer's end marker has been written, and all that came before it.
  story::AttemptReport report_;
};

}  // namespace weir::proxy::exchange
