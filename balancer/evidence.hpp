// The evidence of a replica: how requests ended there, by client and topic.
//
// An address is a client and a topic, a topic for all
// clients, or the whole replica; a topic is a model on a kind of route. What a replica does to one client, model or
// route changes nothing for the others whom it answers. So a bad end reaches only as far as the evidence does:
//
//   bad ends in a row, at an address                   they keep away from the replica
//   of one client on one topic                         this client's requests for this topic
//   of two clients on one topic                        all requests for this topic
//   of two clients, and no other topic is answered     all requests: see PoolHealth, which ejects the replica
//
// A row of two clients says nothing of all where the replica answers others, so that the row may be chance: see Row.
// A good answer ends the rows of all three addresses that it belongs to. How long requests keep away: 10 s after a row,
// and twice as long each time up to 5 min. A full replica keeps a client whom it does not serve away for as long as it
// asked, and all clients for 250 ms once it told two of whom it had served one, and twice as long each time up to 8 s.
// After each failure there is a rest of 1 s: see Advice.
//
// A Pool owns one for each replica and calls it under its mutex. It reads no clock and allocates nothing. A call looks
// at 32 addresses. One client, whatever topics it makes up, has at most a quarter of them.
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

/// Whose request it is: one credential, or one address without a credential. Nobody where weir does not know, or where
/// the client has no part in what happened: such an end speaks for all clients.
class Client {
 public:
  constexpr Client() = default;
  constexpr Client(std::uint64_t id) : id_(id) {}  // NOLINT(google-explicit-constructor): a client is its number.

  constexpr explicit operator bool() const { return id_ != nobody; }
  constexpr std::uint64_t operator*() const { return id_; }
  bool operator==(const Client&) const = default;

 private:
  static constexpr std::uint64_t nobody = ~std::uint64_t{0};
  std::uint64_t id_ = nobody;
};

/// Names a model on a kind of route. 0: any.
using Topic = std::uint64_t;

/// `route` is the path where weir does not know the API, else the API's name.
Topic topic_of(std::string_view model, std::string_view route);

/// True if the probability of a row of bad ends is below 1e-5 where ends are bad as rarely as in these counts. The rate
/// is estimated by Laplace's rule of succession.
bool is_no_chance(std::uint32_t good, std::uint32_t bad, std::uint32_t row);

/// Stands for any status of a refusal.
inline constexpr std::uint16_t any_status = 0;

/// The address of what a request shows.
struct Caller {
  Client client{};
  Topic topic = 0;
  /// By this two clients are counted as two: a client may make up credentials, and not addresses. Nobody: by `client`.
  Client voice{};
  std::uint64_t number = 0;           ///< By this the request belongs to a side of a split.
  std::uint16_t status = any_status;  ///< Of a refusal.
  bool refused_content = false;       ///< The content of the request was refused.
  /// False for a request that needs no inference: engines that can do none still answer it well.
  bool gives_work = true;
  bool infers = true;  ///< The route is one of an API that weir knows: an answer there shows that the engine works.

  Client said_by() const { return voice ? voice : client; }
};

/// A sign of a replica's health, from a request or a probe.
enum class Sign : std::uint8_t {
  answered,           ///< The replica gave an answer.
  client_error,       ///< A refusal of such a request: no failure by itself, but see ReplicaSet::is_odd().
  outdone,            ///< Another replica answered well what it had refused.
  empty,              ///< An answer with nothing in it.
  failed,             ///< The replica broke off, took too long, or answered with an error of its own.
  refused,            ///< The replica refused a request's connection.
  connect_timed_out,  ///< The replica did not take a connection in time.
  full,               ///< The replica has no room now.
  probe_passed,
  probe_failed,
  probe_excused,  ///< A probe without an answer, and with tokens meanwhile.
  probe_refused,  ///< The replica refused a probe's connection.
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
  /// A replica that told some clients that it is full is guessed to be full for all, at first for so long.
  static constexpr std::chrono::milliseconds first_full_for_all{250};

  /// The last answers of an address, older ones counting less and less: about forty.
  struct Counts {
    std::uint32_t good = 0, empty = 0, refused = 0, bad = 0;
    std::uint32_t answers() const { return good + empty + refused; }
    Counts& operator+=(const Counts& more);
  };

  // Ends of requests.

  /// Takes how a request ended. Signs of connections and probes say nothing here; an empty answer comes to empty(),
  /// too. `full_for`: how long a full replica asked to be left alone. A good answer to a request that gave the engine
  /// no work shows only that the server is there.
  void showed(Sign sign, const Caller& caller, Moment now,
              std::optional<std::chrono::duration<double>> full_for = std::nullopt);
  /// Counts an answer with nothing in it. Whether that is bad its peers tell: see gives_nothing(). `in_row`: it belongs
  /// to the row of its topic. Returns the length of that row, if it is two clients' or the replica serves no other;
  /// else 0.
  std::uint32_t empty(const Caller& caller, bool in_row, Moment now);
  /// The empty answers on this topic are the replica's fault.
  void gives_nothing(const Caller& caller, Moment now);
  /// The replica rests, since a request has just failed there. failed() follows once the request's blame is known.
  void begin_rest(const Caller& caller, Moment now);
  /// The failures so far and those to come are of different rows.
  void end_row() { all_.row = {}; }

  // Conclusions for a request.

  struct Advice {
    bool full = false;
    bool avoid = false;  ///< Others are to be preferred for some time.
    /// The replica rests: a request that it has failed does not go back there, or nothing goes there from the queue,
    /// either.
    bool rests = false, rests_for_queue = false;
  };
  Advice advise(const Caller& caller, Moment now) const;
  /// How the replica has treated such requests lately.
  struct Past {
    /// The replica answered this client well within a minute, or anybody lately, on this topic, and did not refuse this
    /// client since.
    bool answers = false;
    /// The replica refused this client on this topic with this status, or two clients, and did not answer it since.
    bool refuses = false;
    bool was_outdone = false;  ///< Another replica answered what this one had refused, to this client or to two.
  };
  Past past_of(const Caller& caller, Moment now) const;

  // Conclusions on the replica.

  /// Two clients had failures since the replica last answered anybody, and chance does not explain it.
  bool has_failed_several(const Caller& caller, Moment now) const { return tells_of_all(all_, caller, now); }
  /// A client other than this one was answered well lately.
  bool serves_others(const Caller& caller, Moment now) const;
  /// The replica does not fail all: another topic was answered well within a minute, or, where several fail, within
  /// some seconds.
  bool answers_other_topics(Topic topic, Moment now) const;
  bool answered_within(std::chrono::duration<double> time, Moment now) const;
  /// Returns the counts of one client, or of all for nothing; on one topic, or on all for 0.
  Counts counts(Client client, Topic topic, Moment now) const;
  /// Another replica answered well enough requests in a row that this one had refused, to two clients or where it
  /// serves no other than this one; and it answers no other topic.
  bool is_outdone(const Caller& caller, Moment now) const;
  /// Returns how many answers in a row on this topic had nothing in them.
  std::uint32_t empties(Topic topic) const;

 private:
  static constexpr Moment never = Moment::min();

  /// Ends of one kind without a good answer between, and whether two clients had them.
  struct Row {
    std::uint16_t length = 0, served = 0;  ///< The latter are ends of clients that the replica may serve: see add().
    bool several = false, several_credentials = false;
    Client client, credential;  ///< Of the last end, by Caller::said_by() and Caller::client.
    Moment last = never;

    /// `of_served`: the client is not known to be one that the replica does not answer.
    void add(const Caller& caller, Moment now, bool of_served = true);
    /// The same, but a row that nothing was added to lately begins anew.
    void add_lately(const Caller& caller, Moment now, bool of_served = true);
    bool is_young(Moment now) const { return last != never && now - last < lately; }
  };

  /// The record of an address.
  struct Cell {
    Row row, outdone, empties, refused, full;
    Counts last;
    Moment good = never;
    Moment full_until = never, avoid_until = never, rest_until = never;
    std::uint16_t status = 0;                        ///< Of the last refusal.
    std::uint8_t times_full = 0, times_avoided = 0;  ///< In a row.
    bool rests_for_queue = false;
    bool told = false;  ///< The replica said how long it is full.
    bool infers = false;
    bool gives_nothing = false;  ///< Of a topic: see Evidence::gives_nothing().

    bool keeps_away(Moment now) const { return now < full_until || now < avoid_until || now < rest_until; }
    bool fails() const { return row.length > 0 || outdone.length > 0 || gives_nothing; }
  };

  /// The address of a cell. No client: of all clients.
  struct Key {
    Client client;
    Topic topic = 0;
    Moment used = never;  ///< `never` is a free cell.
    Client made_by;       ///< Counts against the quarter that one client may have.
  };

  /// The cells of a request's three addresses. Some may be the same.
  struct Three {
    Cell *own, *topic, *all;
    bool served;  ///< See Row::add.
  };
  Three cells_of(const Caller& caller, Moment now);
  template <class Do>
  static void each(const Three& cells, const Do& act);
  /// The same without the whole replica, unless the topic is any.
  template <class Do>
  static void each_of_topic(const Three& cells, const Do& act);
  Cell& cell_for(Client client, Topic topic, const Caller& caller, Moment now);
  const Cell* find(Client client, Topic topic) const;
  std::size_t victim(Moment now) const;
  static void count(Cell& cell, std::uint32_t Counts::* what);
  bool is_of_several(const Row& row, const Caller& caller, Moment now) const;
  bool tells_of_all(const Cell& cell, const Caller& caller, Moment now) const;
  void answered(Moment now) { last_answer_ = std::max(last_answer_, now); }
  void good(const Caller& caller, bool plenty, Moment now);
  void refused(const Caller& caller, Moment now);
  void failed(const Caller& caller, Moment now);
  void outdone(const Caller& caller, Moment now);
  void full(const Caller& caller, std::optional<std::chrono::duration<double>> told, Moment now);
  void keep_away(Moment& kept, Moment until);
  void avoid(Cell& cell, Moment now);
  void guess_full(Cell& cell, std::chrono::duration<double> first, Moment now);

  std::array<Key, most_cells> keys_{};
  std::array<Cell, most_cells> cells_{};
  Cell all_;  ///< The whole replica. What nobody knows the topic of is noted here alone.
  Moment all_used_ = never;
  /// The last good answer, and the last one to another client than that.
  struct Served {
    Client client;
    Moment at = never;
  };
  std::array<Served, 2> served_{};
  Moment any_until_ = never;    ///< No address keeps anybody away after it.
  Moment last_answer_ = never;  ///< The last good answer or refusal.
};

}  // namespace weir::balancer
