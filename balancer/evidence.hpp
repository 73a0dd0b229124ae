// The evidence of a replica: how the last requests of each client for each topic ended there. A topic is a model on a
// kind of route. What a replica does to one client, model or route changes nothing for the others whom it answers. So a
// bad end reaches only as far as the evidence does:
//
//   bad ends, since the topic was last answered well   they keep away from the replica
//   of one client                                      this client's requests for this topic
//   of two clients                                     all requests for this topic
//   of two clients, and no other topic is answered     all requests: see PoolHealth, which ejects the replica
//
// How long: for as long as a full replica asked, else 1 s, and twice as long each time up to 8 s; for 10 s after a row
// of bad ends, and twice as long each time up to 5 min. A good answer ends it, but for the time that a full replica
// told this client. After each failure there is a rest of 1 s: see Advice.
//
// A Pool owns one for each replica and calls it under its mutex. It reads no clock and allocates nothing. A call looks
// at 32 cells. A client with very many topics has at most a quarter of them.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "balancer/tokens.hpp"

namespace weir::balancer {

/// Whose request it is: one credential, or one address without a credential. Nothing where nobody knows, or where the
/// client has no part in what happened: such an end speaks for all clients.
using Client = std::optional<std::uint64_t>;

/// Names a model on a kind of route. 0: any.
using Topic = std::uint64_t;

/// `route` is the path where weir does not know the API, else the API's name.
Topic topic_of(std::string_view model, std::string_view route);

/// The address of what a request shows.
struct Caller {
  Client client{};
  /// False for a request that needs no inference: engines that can do none still answer it well.
  bool gives_work = true;
  /// Set where the content of the request was refused: the number by which it belongs to a side of a split.
  std::optional<std::uint64_t> refused{};
  Topic topic = 0;
  unsigned status = 0;  ///< Of a refusal.
  /// By this two clients are counted as two: a client may make up credentials, and not addresses. Nothing: by `client`.
  Client voice{};
};

class Evidence {
 public:
  static constexpr std::size_t most_cells = 32;
  /// An answer so young shows that a replica works.
  static constexpr std::chrono::seconds lately{10};
  /// Older ends say nothing.
  static constexpr std::chrono::seconds age{60};
  /// So many bad ends in a row keep requests away. A refusal that another replica answers well is the surer sign.
  static constexpr std::uint32_t failures_in_a_row = 5, outdone_in_a_row = 3;
  /// A replica that answers takes from the queue until so many of an address have failed in a row.
  static constexpr std::uint32_t failures_before_rest = 2;
  /// Where requests of several topics fail, another one that was answered so lately shows that not all do.
  static constexpr std::chrono::seconds some_fail{5};
  static constexpr std::chrono::seconds rest{1}, first_full{1}, longest_full{8}, first_shut{10}, longest_shut{300};

  /// The last answers, older ones counting less and less: about forty of one client and topic.
  struct Counts {
    std::uint32_t good = 0, empty = 0, refused = 0, bad = 0;
    std::uint32_t answers() const { return good + empty + refused; }
    Counts& operator+=(const Counts& more);
  };

  // Ends of requests.

  /// `plenty`: the answer has more than a token, or is of a kind that has none.
  void good(const Caller& caller, bool plenty, Moment now);
  /// The same for a request that gave the engine no work: it shows that the server is there, and no more.
  void answered(Moment now);
  void refused(const Caller& caller, Moment now);
  /// The replica broke off, took too long, answered with an error of its own, or with nothing where peers give more.
  void failed(const Caller& caller, Moment now);
  /// Another replica answered well what this one had refused.
  void outdone(const Caller& caller, Moment now);
  /// The replica has no room for this request; `told`: for so long.
  void full(const Caller& caller, std::optional<std::chrono::duration<double>> told, Moment now);
  /// The replica rests, since a request has just failed there. failed() follows once the request's blame is known.
  void begin_rest(const Caller& caller, Moment now);
  /// The request is to blame for its failure, and the replica does not rest.
  void end_rest(const Caller& caller);
  /// Other replicas fail the request, too.
  void absolved(const Caller& caller, Moment now);
  void clear() { *this = {}; }

  // Conclusions for a request.

  struct Advice {
    bool full = false;
    bool avoid = false;  ///< Others are to be preferred for some time.
    /// The replica rests: a request that it has failed does not go back there, or nothing goes there from the queue,
    /// either.
    bool rests = false, rests_for_queue = false;
  };
  Advice advise(const Caller& caller, Moment now) const;
  /// Requests of this client, or of two, fail at all replicas.
  bool absolves(const Caller& caller, Moment now) const;
  /// The replica refused a request like this lately with the same status, and has answered none well since.
  bool refuses(const Caller& caller, Moment now) const;
  /// Another replica answered lately what this one had refused.
  bool was_outdone(const Caller& caller, Moment now) const;

  // Conclusions on the replica.

  /// Two clients had bad ends since the replica last answered anybody.
  bool has_failed_several() const;
  /// A client other than this one was answered well lately.
  bool serves_others(Client client, Moment now) const;
  /// The replica does not fail all: another topic was answered well within a minute, or, where several fail, within
  /// some seconds.
  bool answers_other_topics(Topic topic, Moment now) const;
  bool answered_within(std::chrono::duration<double> time, Moment now) const;
  /// Returns the counts of one client, or of all for nothing; on one topic, or on all for 0.
  Counts counts(Client client, Topic topic, Moment now) const;
  /// Another replica answered well enough requests in a row that this one had refused; and those of two clients.
  bool is_outdone() const;
  bool outdone_for_several() const;

 private:
  static constexpr Moment never = Moment::min();
  struct Cell {
    Client client, voice;
    Topic topic = 0;
    Moment used = never;  ///< `never` is a free cell.
    Moment good = never, refused = never, outdone = never, absolved = never;
    Moment full_until = never, avoid_until = never, rest_until = never;
    std::uint16_t status = 0;  ///< Of the last refusal.
    std::uint16_t row = 0;     ///< Bad ends since the topic was last answered well.
    std::uint8_t outdone_row = 0;
    std::uint8_t times_full = 0, times_avoided = 0;  ///< In a row.
    bool rests_for_queue = false;
    bool told = false;     ///< It was told `full_until`, and need not guess.
    bool is_full = false;  ///< There was no room, and the topic has not been answered well since.
    bool failed = false;   ///< It failed since the replica last answered anybody.
    Counts last;

    bool keeps_away(Moment now) const { return now < full_until || now < avoid_until || now < rest_until; }
    bool is_of(const Caller& caller) const { return used != never && client == caller.client && topic == caller.topic; }
  };

  Cell& cell_for(Client client, Topic topic, Moment now);
  Cell& cell_of(const Caller& caller, Moment now);
  Cell& victim(Moment now);
  static void count(Cell& cell, std::uint32_t Counts::*what);
  void keep_away(Moment& kept, Moment until);
  void judge_row(std::uint32_t enough, Cell& own, std::uint32_t (*row_of)(const Cell&), Moment now);
  void avoid(Cell& cell, Moment now);
  template <class Says>
  bool of_several(Topic topic, const Says& says) const;
  template <class Says>
  bool of_it_or_several(const Caller& caller, const Says& says) const;

  std::array<Cell, most_cells> cells_{};
  Moment any_until_ = never;    ///< No cell keeps anybody away after it.
  Moment last_answer_ = never;  ///< The last good answer or refusal.
};

}  // namespace weir::balancer
