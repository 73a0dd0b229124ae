#include "balancer/evidence.hpp"

#include <cmath>
#include <functional>
#include <tuple>
#include <utility>

namespace weir::balancer {
namespace {

constexpr std::uint32_t most_counted = 40;

bool is_within(Moment at, std::chrono::duration<double> time, Moment now) {
  return at != Moment::min() && now - at < time;
}

/// Returns `first`, twice as long for each of `times`, up to `longest`.
Moment::duration doubled(std::chrono::duration<double> first, std::chrono::duration<double> longest, unsigned times) {
  return std::chrono::duration_cast<Moment::duration>(
      std::min(first * static_cast<double>(1U << std::min(times, 10U)), longest));
}

void increase(std::uint8_t& times) { times = static_cast<std::uint8_t>(std::min(times + 1, 0xff)); }

}  // namespace

Topic topic_of(std::string_view model, std::string_view route) {
  constexpr std::size_t spread = 0x9e3779b97f4a7c15;  // The golden ratio: the two may not be exchanged.
  const std::size_t hash = std::hash<std::string_view>()(model) * spread ^ std::hash<std::string_view>()(route);
  return hash == 0 ? 1 : hash;
}

bool is_no_chance(std::uint32_t good, std::uint32_t bad, std::uint32_t row) {
  constexpr double least = 1e-5;
  // Twenty in a row show all that a row can show.
  return good > 0 && std::pow((bad + 1.0) / (good + bad + 2.0), std::min(row, 20U)) < least;
}

Evidence::Counts& Evidence::Counts::operator+=(const Counts& more) {
  good += more.good;
  empty += more.empty;
  refused += more.refused;
  bad += more.bad;
  return *this;
}

void Evidence::Row::add(const Caller& caller, Moment now, bool of_served) {
  const auto another = [this](Client whose, Client last_one) { return !whose || (length > 0 && last_one != whose); };
  several = several || another(caller.said_by(), client);
  several_credentials = several_credentials || another(caller.client, credential);
  if (of_served) served = static_cast<std::uint16_t>(std::min(served + 1, 0xffff));
  client = caller.said_by();
  credential = caller.client;
  length = static_cast<std::uint16_t>(std::min(length + 1, 0xffff));
  last = now;
}

void Evidence::Row::add_lately(const Caller& caller, Moment now, bool of_served) {
  if (!is_young(now)) *this = {};
  add(caller, now, of_served);
}

/// An address without an end for `age` is forgotten, unless requests have kept away so long.
Evidence::Cell& Evidence::cell_for(Client client, Topic topic, const Caller& caller, Moment now) {
  for (std::size_t i = 0; i < most_cells; ++i) {
    Key& key = keys_[i];
    if (key.used == never || key.client != client || key.topic != topic) continue;
    Cell& cell = cells_[i];
    if (!is_within(std::max({key.used, cell.avoid_until, cell.full_until}), age, now)) cell = {};
    key.used = now;
    return cell;
  }
  const std::size_t place = victim(now);
  keys_[place] = {client, topic, now, caller.said_by()};
  return cells_[place] = {};
}

const Evidence::Cell* Evidence::find(Client client, Topic topic) const {
  if (!client && topic == 0) return &all_;
  for (std::size_t i = 0; i < most_cells; ++i)
    if (keys_[i].used != never && keys_[i].client == client && keys_[i].topic == topic) return &cells_[i];
  return nullptr;
}

/// Returns a free cell; else the oldest of a client that has made more than a quarter of them; else the oldest without
/// bad ends, as long as those with some are not nearly all; else the oldest of those.
std::size_t Evidence::victim(Moment now) const {
  std::size_t bad = 0;
  const auto is_bad = [now](const Cell& cell) { return cell.keeps_away(now) || cell.fails(); };
  for (const Cell& cell : cells_) bad += is_bad(cell) ? 1 : 0;
  const bool mostly_bad = 4 * bad > 3 * most_cells;
  const auto worth = [&](std::size_t i) {
    const Key& key = keys_[i];
    if (key.used == never) return 0;
    const auto same = static_cast<std::size_t>(std::ranges::count(keys_, key.made_by, &Key::made_by));
    const bool this_is_bad = is_bad(cells_[i]);
    if (key.made_by && 4 * same > most_cells) return this_is_bad ? 2 : 1;
    return this_is_bad == mostly_bad ? 3 : 4;
  };
  // The cell of a topic stays where another one was used at the same moment.
  const auto rank = [&](std::size_t i) { return std::tuple(worth(i), keys_[i].used, !keys_[i].client); };
  std::size_t found = 0;
  for (std::size_t i = 1; i < most_cells; ++i)
    if (rank(i) < rank(found)) found = i;
  return found;
}

/// The cell of the topic is made first and just used, so that the second one does not take its place.
Evidence::Three Evidence::cells_of(const Caller& caller, Moment now) {
  if (!is_within(std::exchange(all_used_, now), age, now)) all_.last = {};
  const Cell* const known = caller.client ? find(caller.client, caller.topic) : nullptr;
  const bool served = known == nullptr || is_within(known->good, age, now);
  Cell* const topic = caller.topic != 0 ? &cell_for({}, caller.topic, caller, now) : &all_;
  Cell* const own = caller.client ? &cell_for(caller.client, caller.topic, caller, now) : topic;
  return {own, topic, &all_, served};
}

template <class Do>
void Evidence::each(const Three& cells, const Do& act) {
  act(*cells.own);
  if (cells.topic != cells.own) act(*cells.topic);
  if (cells.all != cells.topic) act(*cells.all);
}

template <class Do>
void Evidence::each_of_topic(const Three& cells, const Do& act) {
  act(*cells.own);
  if (cells.topic != cells.own) act(*cells.topic);
}

void Evidence::count(Cell& cell, std::uint32_t Counts::* what) {
  Counts& last = cell.last;
  if (last.answers() + last.bad >= most_counted) last = {last.good / 2, last.empty / 2, last.refused / 2, last.bad / 2};
  ++(last.*what);
}

void Evidence::keep_away(Moment& kept, Moment until) {
  kept = std::max(kept, until);
  any_until_ = std::max(any_until_, until);
}

void Evidence::avoid(Cell& cell, Moment now) {
  if (now < cell.avoid_until) return;
  keep_away(cell.avoid_until, now + doubled(first_shut, longest_shut, cell.times_avoided));
  increase(cell.times_avoided);
}

void Evidence::guess_full(Cell& cell, std::chrono::duration<double> first, Moment now) {
  if (now < cell.full_until) return;
  keep_away(cell.full_until, now + doubled(first, longest_full, cell.times_full));
  increase(cell.times_full);
}

void Evidence::showed(Sign sign, const Caller& caller, Moment now,
                      std::optional<std::chrono::duration<double>> full_for) {
  switch (sign) {
    case Sign::answered:
    case Sign::empty:
      return good(caller, sign == Sign::answered, now);
    case Sign::client_error:
      return refused(caller, now);
    case Sign::failed:
      return failed(caller, now);
    case Sign::outdone:
      return outdone(caller, now);
    case Sign::full:
      return full(caller, full_for, now);
    default:
      return;
  }
}

/// `plenty`: the answer has a token, or is of a kind that has none. Else empty() has counted it.
void Evidence::good(const Caller& caller, bool plenty, Moment now) {
  answered(now);
  if (!caller.gives_work) return;
  if (served_[0].client != caller.said_by()) served_[1] = served_[0];
  served_[0] = {caller.said_by(), now};
  const Three cells = cells_of(caller, now);
  each(cells, [&](Cell& cell) {
    if (plenty) count(cell, &Counts::good);
    cell.good = now;
    cell.infers |= caller.infers;
    cell.row = cell.outdone = cell.refused = cell.full = {};
    if (plenty) {
      cell.empties = {};
      cell.gives_nothing = false;
    }
    const bool asked_for = &cell == cells.own && caller.client && cell.told;
    if (!asked_for) cell.full_until = never;
    cell.avoid_until = cell.rest_until = never;
    cell.times_full = cell.times_avoided = 0;
  });
}

void Evidence::refused(const Caller& caller, Moment now) {
  answered(now);
  const Three cells = cells_of(caller, now);
  each(cells, [&](Cell& cell) { count(cell, &Counts::refused); });
  each_of_topic(cells, [&](Cell& cell) {
    if (std::exchange(cell.status, caller.status) != caller.status) cell.refused = {};
    cell.refused.add_lately(caller, now);
  });
}

void Evidence::failed(const Caller& caller, Moment now) {
  const Three cells = cells_of(caller, now);
  if (!is_within(all_.row.last, age, now)) end_row();
  each(cells, [&](Cell& cell) {
    count(cell, &Counts::bad);
    cell.row.add(caller, now, cells.served);
    const bool of_one = &cell == cells.own && caller.client;
    if (&cell != cells.all && cell.row.length >= failures_in_a_row && (of_one || tells_of_all(cell, caller, now)))
      avoid(cell, now);
  });
}

/// Behind one address several credentials are several clients, as long as nobody else is answered.
bool Evidence::is_of_several(const Row& row, const Caller& caller, Moment now) const {
  return row.several || (row.several_credentials && !serves_others(caller, now));
}

/// Clients that the replica never answers have rows by chance where they send much of what comes. So their row is
/// judged by how often the replica failed before it.
bool Evidence::tells_of_all(const Cell& cell, const Caller& caller, Moment now) const {
  if (!is_of_several(cell.row, caller, now)) return false;
  const std::uint32_t answers = cell.last.answers();
  if (cell.row.served == cell.row.length || answers == 0) return true;
  const std::uint32_t bad_before = cell.last.bad - std::min<std::uint32_t>(cell.last.bad, cell.row.length);
  return is_no_chance(answers, bad_before, cell.row.length);
}

void Evidence::outdone(const Caller& caller, Moment now) {
  const Three cells = cells_of(caller, now);
  each(cells, [&](Cell& cell) {
    cell.refused = {};
    cell.outdone.add(caller, now);
    const bool says = (&cell == cells.own && caller.client) || is_of_several(cell.outdone, caller, now);
    if (&cell != cells.all && cell.outdone.length >= outdone_in_a_row && says) avoid(cell, now);
  });
}

std::uint32_t Evidence::empty(const Caller& caller, bool in_row, Moment now) {
  answered(now);
  const Three cells = cells_of(caller, now);
  each(cells, [](Cell& cell) { count(cell, &Counts::empty); });
  Row& empties = cells.topic->empties;
  if (in_row) empties.add(caller, now);
  return empties.several || !serves_others(caller, now) ? empties.length : 0;
}

void Evidence::gives_nothing(const Caller& caller, Moment now) {
  const Three cells = cells_of(caller, now);
  cells.topic->gives_nothing = true;
  if (cells.topic != cells.all) avoid(*cells.topic, now);
}

/// One client's word is for itself, whatever time it was told. The replica is full for all clients of the topic once
/// two of them were told so, of whom it had served one, and for everybody if it answers no other topic.
void Evidence::full(const Caller& caller, std::optional<std::chrono::duration<double>> told, Moment now) {
  const Three cells = cells_of(caller, now);
  Cell& own = *cells.own;
  Cell& topic = *cells.topic;
  // Many users may share a credential or an address: where some of them are served, the limit is another one's.
  const bool serves = caller.client && is_within(own.good, lately, now);
  own.told = told && !serves;
  if (own.told)
    keep_away(own.full_until, now + std::chrono::duration_cast<Moment::duration>(*told));
  else
    guess_full(own, serves ? first_full_for_all : first_full, now);
  topic.full.add_lately(caller, now, cells.served);
  const bool several = is_of_several(topic.full, caller, now);
  // Clients that are never served have limits of their own.
  if (!several || topic.full.served == 0) {
    if (&topic != &own) topic.rest_until = never;  // The others need not wait for this one's sake.
    return;
  }
  if (&topic != &own) guess_full(topic, first_full_for_all, now);
  if (cells.all != &topic && !answers_other_topics(caller.topic, now)) guess_full(*cells.all, first_full_for_all, now);
}

void Evidence::begin_rest(const Caller& caller, Moment now) {
  const Three cells = cells_of(caller, now);
  const bool works = is_within(all_.good, lately, now);
  const auto rests = [&](Cell& cell) {
    keep_away(cell.rest_until, now + rest);
    cell.rests_for_queue = cell.row.length >= failures_before_rest || !works;
  };
  rests(*cells.own);
  const Row& row = cells.topic->row;
  // Clients that the replica never serves, and who fail again and again, would keep those waiting whom it serves.
  const bool several = row.served > 0 && (row.several || row.client != caller.said_by());
  if (cells.topic != cells.own && (several || !works)) rests(*cells.topic);
}

Evidence::Advice Evidence::advise(const Caller& caller, Moment now) const {
  Advice advice;
  if (now >= any_until_) return advice;
  for (const Cell* const cell :
       {caller.client ? find(caller.client, caller.topic) : nullptr, find({}, caller.topic), &all_}) {
    if (cell == nullptr) continue;
    advice.full |= now < cell->full_until;
    advice.avoid |= now < cell->avoid_until;
    advice.rests |= now < cell->rest_until;
    advice.rests_for_queue |= now < cell->rest_until && cell->rests_for_queue;
  }
  return advice;
}

Evidence::Past Evidence::past_of(const Caller& caller, Moment now) const {
  const Cell* const own = caller.client ? find(caller.client, caller.topic) : nullptr;
  const Cell* const topic = find({}, caller.topic);
  const auto of_it_or_several = [&](Row Cell::* row, const auto& says) {
    return (own != nullptr && says(*own, own->*row)) ||
           (topic != nullptr && (topic->*row).several && says(*topic, topic->*row));
  };
  Past past;
  past.answers =
      (own == nullptr || !own->refused.is_young(now)) &&
      ((own != nullptr && is_within(own->good, age, now)) || (topic != nullptr && is_within(topic->good, lately, now)));
  past.refuses = of_it_or_several(&Cell::refused, [&](const Cell& cell, const Row& row) {
    return (caller.status == any_status || cell.status == caller.status) && row.is_young(now);
  });
  past.was_outdone = of_it_or_several(&Cell::outdone, [&](const Cell&, const Row& row) { return row.is_young(now); });
  return past;
}

bool Evidence::is_outdone(const Caller& caller, Moment now) const {
  return all_.outdone.length >= outdone_in_a_row && !answers_other_topics(caller.topic, now) &&
         (all_.outdone.several || !serves_others(caller, now));
}

bool Evidence::serves_others(const Caller& caller, Moment now) const {
  return std::ranges::any_of(
      served_, [&](const Served& one) { return one.client != caller.said_by() && is_within(one.at, lately, now); });
}

bool Evidence::answers_other_topics(Topic topic, Moment now) const {
  if (topic == 0) return false;
  const auto is_another = [&](std::size_t i) {
    return is_within(keys_[i].used, age, now) && !keys_[i].client && keys_[i].topic != topic;
  };
  const auto surely_fails = [](const Cell& cell) {
    return cell.row.several || cell.row.length >= failures_in_a_row || cell.outdone.several ||
           cell.outdone.length >= outdone_in_a_row || cell.gives_nothing;
  };
  constexpr std::size_t several = 3;  // So many topics fail, of which each has few requests.
  std::chrono::seconds time = age;
  std::size_t failing = 0;
  for (std::size_t i = 0; i < most_cells; ++i) {
    if (!is_another(i)) continue;
    failing += cells_[i].fails() ? 1 : 0;
    if (surely_fails(cells_[i]) || failing >= several) time = some_fail;
  }
  for (std::size_t i = 0; i < most_cells; ++i)
    if (is_another(i) && cells_[i].infers && !cells_[i].fails() && is_within(cells_[i].good, time, now)) return true;
  return false;
}

bool Evidence::answered_within(std::chrono::duration<double> time, Moment now) const {
  return is_within(last_answer_, time, now);
}

Evidence::Counts Evidence::counts(Client client, Topic topic, Moment now) const {
  if (!client && topic == 0) return is_within(all_used_, age, now) ? all_.last : Counts();
  Counts sum;
  for (std::size_t i = 0; i < most_cells; ++i)
    if (keys_[i].client == client && (topic == 0 || keys_[i].topic == topic) && is_within(keys_[i].used, age, now))
      sum += cells_[i].last;
  return sum;
}

std::uint32_t Evidence::empties(Topic topic) const {
  const Cell* const cell = find({}, topic);
  return cell != nullptr ? cell->empties.length : 0;
}

}  // namespace weir::balancer
