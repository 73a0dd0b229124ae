#include "balancer/evidence.hpp"

#include <functional>
#include <utility>

namespace weir::balancer {
namespace {

constexpr std::uint32_t most_counted = 40;

bool is_within(Moment at, std::chrono::duration<double> time, Moment now) {
  return at != Moment::min() && now - at < time;
}

Moment::duration doubled(std::chrono::duration<double> first, std::chrono::duration<double> longest, unsigned times) {
  return std::chrono::duration_cast<Moment::duration>(
      std::min(first * static_cast<double>(1U << std::min(times, 10U)), longest));
}

}  // namespace

Topic topic_of(std::string_view model, std::string_view route) {
  constexpr std::size_t spread = 0x9e3779b97f4a7c15;  // The golden ratio: the two may not be exchanged.
  const std::size_t hash = std::hash<std::string_view>()(model) * spread ^ std::hash<std::string_view>()(route);
  return hash == 0 ? 1 : hash;
}

Evidence::Counts& Evidence::Counts::operator+=(const Counts& more) {
  good += more.good;
  empty += more.empty;
  refused += more.refused;
  bad += more.bad;
  return *this;
}

Evidence::Cell& Evidence::cell_for(Client client, Topic topic, Moment now) {
  for (Cell& cell : cells_) {
    if (cell.used == never || cell.client != client || cell.topic != topic) continue;
    if (!is_within(cell.used, age, now)) cell.last = {};
    cell.used = now;
    return cell;
  }
  Cell& cell = victim(now);
  cell = {};
  cell.client = client;
  cell.topic = topic;
  cell.used = now;
  return cell;
}

Evidence::Cell& Evidence::cell_of(const Caller& caller, Moment now) {
  Cell& cell = cell_for(caller.client, caller.topic, now);
  if (caller.voice || !cell.voice) cell.voice = caller.voice ? caller.voice : caller.client;
  return cell;
}

/// Returns a free cell; else the oldest of a client that has more than a quarter of the cells; else the oldest without
/// bad ends, as long as those with some are not nearly all; else the oldest of those.
Evidence::Cell& Evidence::victim(Moment now) {
  const auto is_bad = [now](const Cell& cell) { return cell.keeps_away(now) || cell.row > 0 || cell.outdone_row > 0; };
  const bool mostly_bad = 4 * std::ranges::count_if(cells_, is_bad) > 3 * static_cast<std::ptrdiff_t>(most_cells);
  const auto worth = [&](const Cell& cell) {
    if (cell.used == never) return 0;
    const auto same_voice = std::ranges::count(cells_, cell.voice, &Cell::voice);
    if (cell.client && 4 * same_voice > static_cast<std::ptrdiff_t>(most_cells)) return 1;
    return is_bad(cell) == mostly_bad ? 2 : 3;
  };
  return *std::ranges::min_element(cells_, {}, [&](const Cell& cell) { return std::pair(worth(cell), cell.used); });
}

void Evidence::count(Cell& cell, std::uint32_t Counts::*what) {
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
  cell.times_avoided = static_cast<std::uint8_t>(std::min(cell.times_avoided + 1, 0xff));
}

/// True if the cells of two clients for a topic say so, or one that speaks for all clients. Topic 0 is any.
template <class Says>
bool Evidence::of_several(Topic topic, const Says& says) const {
  const Cell* one = nullptr;
  for (const Cell& cell : cells_) {
    if (cell.used == never || (topic != 0 && cell.topic != 0 && cell.topic != topic) || !says(cell)) continue;
    if (!cell.client || (one != nullptr && one->voice != cell.voice)) return true;
    one = &cell;
  }
  return false;
}

template <class Says>
bool Evidence::of_it_or_several(const Caller& caller, const Says& says) const {
  return of_several(caller.topic, says) ||
         std::ranges::any_of(cells_, [&](const Cell& cell) { return cell.is_of(caller) && says(cell); });
}

void Evidence::good(const Caller& caller, bool plenty, Moment now) {
  answered(now);
  Cell& own = cell_of(caller, now);
  count(own, plenty ? &Counts::good : &Counts::empty);
  own.good = now;
  own.refused = own.outdone = never;
  for (Cell& cell : cells_) {
    const bool of_all = !cell.client && (cell.topic == caller.topic || cell.topic == 0);
    if (cell.topic != caller.topic && !of_all) continue;
    cell.row = cell.outdone_row = 0;
    cell.is_full = false;
    if (&cell != &own && !of_all) continue;
    if (of_all || !cell.told) cell.full_until = never;
    cell.avoid_until = cell.rest_until = never;
    cell.times_full = cell.times_avoided = 0;
  }
}

void Evidence::answered(Moment now) {
  last_answer_ = std::max(last_answer_, now);
  for (Cell& cell : cells_) cell.failed = false;
}

void Evidence::refused(const Caller& caller, Moment now) {
  answered(now);
  Cell& own = cell_of(caller, now);
  count(own, &Counts::refused);
  own.refused = now;
  own.status = static_cast<std::uint16_t>(caller.status);
}

void Evidence::failed(const Caller& caller, Moment now) {
  Cell& own = cell_of(caller, now);
  count(own, &Counts::bad);
  own.failed = true;
  own.row = static_cast<std::uint16_t>(std::min(own.row + 1, 0xffff));
  judge_row(failures_in_a_row, own, [](const Cell& cell) -> std::uint32_t { return cell.row; }, now);
}

void Evidence::outdone(const Caller& caller, Moment now) {
  Cell& own = cell_of(caller, now);
  own.outdone = now;
  own.outdone_row = static_cast<std::uint8_t>(std::min(own.outdone_row + 1, 0xff));
  judge_row(outdone_in_a_row, own, [](const Cell& cell) -> std::uint32_t { return cell.outdone_row; }, now);
}

/// Keeps away the client of a row that is long enough, and all, where two clients have had it.
void Evidence::judge_row(std::uint32_t enough, Cell& own, std::uint32_t (*row_of)(const Cell&), Moment now) {
  const Topic topic = own.topic;
  if (row_of(own) >= enough && own.client) avoid(own, now);
  std::uint32_t row = 0;
  for (const Cell& cell : cells_) row += cell.topic == topic ? row_of(cell) : 0;
  const bool several = of_several(topic, [&](const Cell& cell) { return row_of(cell) > 0; });
  if (row >= enough && several && topic != 0) avoid(cell_for({}, topic, now), now);
}

void Evidence::full(const Caller& caller, std::optional<std::chrono::duration<double>> told, Moment now) {
  Cell& own = cell_of(caller, now);
  const auto time = told ? std::chrono::duration_cast<Moment::duration>(*told)
                         : doubled(first_full, longest_full, own.times_full);
  if (!told) own.times_full = static_cast<std::uint8_t>(std::min(own.times_full + 1, 0xff));
  own.is_full = true;
  own.told = told.has_value();
  keep_away(own.full_until, now + time);
  const auto is_full = [now](const Cell& cell) { return cell.is_full && now < cell.full_until; };
  if (own.client && of_several(caller.topic, is_full))
    keep_away(cell_for({}, caller.topic, now).full_until, now + time);
}

void Evidence::begin_rest(const Caller& caller, Moment now) {
  const auto rests = [&](Cell& cell) {
    keep_away(cell.rest_until, now + rest);
    cell.rests_for_queue = cell.row >= failures_before_rest || !answered_within(lately, now);
  };
  Cell& own = cell_of(caller, now);
  rests(own);
  if (own.client && of_several(caller.topic, [&](const Cell& cell) { return &cell == &own || cell.row > 0; }))
    rests(cell_for({}, caller.topic, now));
}

void Evidence::end_rest(const Caller& caller) {
  for (Cell& cell : cells_)
    if (cell.topic == caller.topic && (!cell.client || cell.client == caller.client)) cell.rest_until = never;
}

void Evidence::absolved(const Caller& caller, Moment now) {
  end_rest(caller);
  cell_of(caller, now).absolved = now;
}

Evidence::Advice Evidence::advise(const Caller& caller, Moment now) const {
  Advice advice;
  if (now >= any_until_) return advice;
  for (const Cell& cell : cells_) {
    if (!cell.keeps_away(now)) continue;
    if (cell.client && cell.client != caller.client) continue;
    if (cell.topic != 0 && cell.topic != caller.topic) continue;
    advice.full |= now < cell.full_until;
    advice.avoid |= now < cell.avoid_until;
    advice.rests |= now < cell.rest_until;
    advice.rests_for_queue |= now < cell.rest_until && cell.rests_for_queue;
  }
  return advice;
}

bool Evidence::absolves(const Caller& caller, Moment now) const {
  return of_it_or_several(caller, [now](const Cell& cell) { return is_within(cell.absolved, lately, now); });
}

bool Evidence::refuses(const Caller& caller, Moment now) const {
  return of_it_or_several(caller, [&](const Cell& cell) {
    return cell.status == caller.status && is_within(cell.refused, lately, now);
  });
}

bool Evidence::was_outdone(const Caller& caller, Moment now) const {
  return of_it_or_several(caller, [now](const Cell& cell) { return is_within(cell.outdone, lately, now); });
}

bool Evidence::has_failed_several() const {
  return of_several(0, [](const Cell& cell) { return cell.failed; });
}

bool Evidence::serves_others(Client client, Moment now) const {
  return std::ranges::any_of(
      cells_, [&](const Cell& cell) { return cell.client != client && is_within(cell.good, lately, now); });
}

bool Evidence::answers_other_topics(Topic topic, Moment now) const {
  const auto fails = [](const Cell& cell) { return cell.row > 0 || cell.outdone_row > 0; };
  const auto another_fails = [&](const Cell& cell) { return cell.topic != topic && fails(cell); };
  const std::chrono::seconds time = std::ranges::any_of(cells_, another_fails) ? some_fail : age;
  return std::ranges::any_of(cells_, [&](const Cell& cell) {
    const auto fails_too = [&](const Cell& one) { return one.topic == cell.topic && fails(one); };
    return cell.topic != topic && is_within(cell.good, time, now) && std::ranges::none_of(cells_, fails_too);
  });
}

bool Evidence::answered_within(std::chrono::duration<double> time, Moment now) const {
  return is_within(last_answer_, time, now);
}

Evidence::Counts Evidence::counts(Client client, Topic topic, Moment now) const {
  Counts sum;
  for (const Cell& cell : cells_) {
    const bool asked = (!client || cell.client == client) && (topic == 0 || cell.topic == topic);
    if (asked && is_within(cell.used, age, now)) sum += cell.last;
  }
  return sum;
}

bool Evidence::is_outdone() const {
  std::uint32_t row = 0;
  for (const Cell& cell : cells_) row += cell.outdone_row;
  return row >= outdone_in_a_row;
}

bool Evidence::outdone_for_several() const {
  return of_several(0, [](const Cell& cell) { return cell.outdone_row > 0; });
}

}  // namespace weir::balancer
