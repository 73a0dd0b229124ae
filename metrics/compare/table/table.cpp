#include "metrics/compare/table/table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>

#include "metrics/compare/statistics/intervals.hpp"

namespace weir::metrics::compare::table {
namespace {

using statistics::Figure;
using statistics::minute_us;
using statistics::RatioSums;

constexpr double longest_of_usual = 10, shortest_of_usual = 0.02;

RatioSums weighed(const RatioSums& sums) {
  const auto [a, b, count_a, count_b] = sums;
  if (count_a <= 0 || count_b <= 0) return {};
  const double weight_a = count_b / (count_a + count_b), weight_b = count_a / (count_a + count_b);
  return {a * weight_a, b * weight_b, count_a * weight_a, count_b * weight_b};
}

std::int64_t minute_of(std::int64_t us) { return us / minute_us - (us % minute_us < 0); }

Table::Answer answer_of(const samples::Sample& sample) {
  return {sample.config, sample.replica, sample.shadow, sample.role};
}

bool holds(const sides::Selection& side, const Table::Answer& answer) {
  samples::Sample sample;
  std::tie(sample.config, sample.replica, sample.shadow, sample.role) = answer;
  // A shadow that was dropped before a replica was chosen for it has neither replica nor configuration: only its
  // [[shadow]] tells its side.
  const bool without_replica = sample.role == Role::shadow && sample.replica == 0 &&
                               (side.by == sides::By::replica || (side.by == sides::By::config && sample.config == 0));
  return without_replica || side.holds(sample);
}

bool same_thresholds(const std::optional<config::Slo>& x, const std::optional<config::Slo>& y) {
  if (!x || !y) return x.has_value() == y.has_value();
  return x->ttft_client == y->ttft_client && x->ttft == y->ttft && x->tpot == y->tpot && x->e2e == y->e2e;
}

/// A request of a minute: of one side, or both answers of a pair.
struct Request {
  const samples::Sample* a = nullptr;
  const samples::Sample* b = nullptr;
};

/// Returns a number of the conversation; a request without one is a conversation of its own.
std::uint64_t conversation_of(const samples::Sample& sample) {
  return sample.group != 0 ? sample.group : sample.id[0] ^ sample.id[1] ^ 1;
}

std::size_t fold_of(std::uint64_t conversation) {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
  return static_cast<std::size_t>((conversation * odd) >> 32) % Table::folds;
}

/// Makes the row of a minute of its requests.
class Minute {
 public:
  Minute(std::int64_t minute, bool paired) : paired_(paired) { row_.minute = minute; }

  void add(const Request& request) { requests_.push_back(request); }

  /// `before` are the rows of the minutes before.
  Row row(std::span<const Row> before) {
    for (const auto quantity : pairs::quantities) add_up(quantity, before);
    for (const Request& one : requests_) {
      row_.requests_a += one.a != nullptr;
      row_.requests_b += one.b != nullptr;
      if (one.a) row_.stalled_a += static_cast<float>(stalled(*one.a));
      if (one.b) row_.stalled_b += static_cast<float>(stalled(*one.b));
    }
    return row_;
  }

  /// Adds the requests of a split to the tenths of its conversations, as Row::of() weighs them.
  void add_to(std::array<std::array<RatioSums, statistics::figure_count>, Table::folds>& folds) const {
    for (const Request& one : requests_) {
      const auto& sample = one.a ? *one.a : *one.b;
      auto& fold = folds[fold_of(conversation_of(sample))];
      const auto put = [&](Figure figure, double value, double count_a, double count_b) {
        if (count_a <= 0 || count_b <= 0) return;
        const double weight = (one.a ? count_b : count_a) / (count_a + count_b);
        auto& sums = fold[static_cast<std::size_t>(figure)];
        (one.a ? sums.a : sums.b) += weight * value;
        (one.a ? sums.count_a : sums.count_b) += weight;
      };
      for (std::size_t i = 0; i < statistics::figure_count; ++i) {
        const auto figure = static_cast<Figure>(i);
        const auto quantity = static_cast<std::size_t>(quantity_of(figure));
        const auto value = pairs::value_of(quantity_of(figure), sample);
        if (!value || figure == Figure::stalls) continue;
        const double usual = usual_[quantity];
        put(figure, is_geomean(figure) ? std::log(held(*value, usual)) : capped(*value, usual),
            row_.sums[quantity].count_a, row_.sums[quantity].count_b);
      }
      put(Figure::stalls, 1000 * stalled(sample), row_.requests_a, row_.requests_b);
    }
  }

 private:
  static double capped(double value, double usual) { return std::min(value, longest_of_usual * usual); }
  static double held(double value, double usual) { return std::max(capped(value, usual), shortest_of_usual * usual); }

  double stalled(const samples::Sample& sample) const {
    const auto longest = [&](pairs::Quantity quantity) {
      const double usual = usual_[static_cast<std::size_t>(quantity)];
      return usual > 0 ? longest_of_usual * usual : std::numeric_limits<double>::infinity();
    };
    return pairs::stalled_s(sample, longest(pairs::Quantity::ttft), longest(pairs::Quantity::e2e));
  }

  void add_up(pairs::Quantity quantity, std::span<const Row> before) {
    std::vector<float> a, b;
    for (const Request& one : requests_) {
      const auto of_a = one.a ? pairs::value_of(quantity, *one.a) : std::nullopt;
      const auto of_b = one.b ? pairs::value_of(quantity, *one.b) : std::nullopt;
      if (paired_ && (!of_a || !of_b)) continue;
      if (of_a) a.push_back(static_cast<float>(*of_a));
      if (of_b) b.push_back(static_cast<float>(*of_b));
    }
    const auto at = static_cast<std::size_t>(quantity);
    Sums& sums = row_.sums[at];
    sums.count_a = static_cast<std::uint32_t>(a.size());
    sums.count_b = static_cast<std::uint32_t>(b.size());
    sums.usual = usual_in(a, b);
    const double usual = usual_[at] = usual_of(sums.usual, at, before);
    if (usual <= 0) return;
    const auto sum = [usual](const std::vector<float>& values, float& plain, float& logs, float& squares) {
      double of_plain = 0, of_logs = 0, of_squares = 0;
      for (const float value : values) {
        const double one = capped(value, usual);
        of_plain += one;
        of_logs += std::log(held(value, usual));
        of_squares += one * one;
      }
      plain = static_cast<float>(of_plain);
      logs = static_cast<float>(of_logs);
      squares = static_cast<float>(of_squares);
    };
    sum(a, sums.a, sums.log_a, sums.square_a);
    sum(b, sums.b, sums.log_b, sums.square_b);
  }

  /// Returns the smaller value of both sides: a side that stands still for a minute does not make that usual.
  static float usual_in(std::vector<float>& a, std::vector<float>& b) {
    const auto of = [](std::vector<float>& values) {
      if (values.empty()) return std::numeric_limits<double>::infinity();
      constexpr double of_slow = 0.3;
      const double slow = statistics::quantile(std::span(values), 0.95);
      return std::max(statistics::median(std::span(values)), of_slow * slow);
    };
    const double least = std::min(of(a), of(b));
    constexpr double most = 1e6;  // A log may hold any number, and squares of it are added up.
    return std::isfinite(least) ? static_cast<float>(std::min(least, most)) : 0.0F;
  }

  static double usual_of(float now, std::size_t quantity, std::span<const Row> before) {
    constexpr std::size_t most = 10;
    std::vector<float> known;
    if (now > 0) known.push_back(now);
    const auto last = before.last(std::min(before.size(), 2 * most));
    for (auto row = last.rbegin(); row != last.rend() && known.size() < most; ++row)
      if (row->sums[quantity].usual > 0) known.push_back(row->sums[quantity].usual);
    return known.empty() ? 0 : statistics::median(std::span(known));
  }

  const bool paired_;
  Row row_;
  std::vector<Request> requests_;
  std::array<double, pairs::quantity_count> usual_{};
};

void count_up(std::uint16_t& count) {
  if (count < std::numeric_limits<std::uint16_t>::max()) ++count;
}

/// Adds the faults of pairs to the row of their minute.
class FaultCount {
 public:
  explicit FaultCount(Row& row) : row_(row) {}

  void add(const pairs::FaultsOfPair& faults, std::int64_t at_us) {
    for (std::size_t i = 0; i < pairs::fault_count; ++i) {
      if (!faults[i]) continue;
      auto& sums = row_.faults[i];
      ++sums.pairs;
      const auto [a, b] = *faults[i];
      if (a && b) count_up(sums.both);
      if (a && !b) count_up(sums.only_a);
      if (b && !a) count_up(sums.only_b);
      ahead_[half_of(at_us)][i] += b - a;
    }
  }
  /// Adds a request of a split, and whether its conversation has the fault for the first time. `weight` makes the rates
  /// of both sides comparable.
  void add(std::size_t fault, bool of_b, bool first, std::int64_t at_us, double weight) {
    auto& sums = row_.faults[fault];
    ++sums.pairs;
    if (!first) return;
    count_up(of_b ? sums.only_b : sums.only_a);
    ahead_[half_of(at_us)][fault] += of_b ? weight : -weight;
  }
  void settle() {
    for (const auto& half : ahead_) {
      for (std::size_t i = 0; i < pairs::fault_count; ++i) {
        row_.faults[i].halves_b += half[i] > 0;
        row_.faults[i].halves_a += half[i] < 0;
      }
    }
  }

 private:
  static std::size_t half_of(std::int64_t at_us) {
    return static_cast<std::size_t>(at_us / (minute_us / 2)) % 2;  // No moment is before 1970.
  }

  Row& row_;
  std::array<std::array<double, pairs::fault_count>, 2> ahead_{};
};

/// Makes the rows of pairs that are in order of time.
void add_pairs(Table& table, std::span<const pairs::Pair> all, std::int64_t warm_us, const Making& making) {
  for (std::size_t i = 0; i < all.size();) {
    const std::int64_t minute = minute_of(all[i].at_us);
    Minute now(minute, true);
    const std::size_t first = i;
    for (; i < all.size() && minute_of(all[i].at_us) == minute; ++i)
      if (all[i].at_us >= warm_us) now.add({all[i].a, all[i].b});
    Row row = now.row(table.rows);
    FaultCount faults(row);
    for (std::size_t j = first; j < i; ++j)
      faults.add(pairs::faults_of(all[j], table.mode == pairs::Mode::control, making.names, table.slo), all[j].at_us);
    faults.settle();
    table.rows.push_back(row);
  }
}

/// Makes the rows of a split, and counts its conversations.
void add_split(Table& table, const pairs::Pairing& pairing, const Making& making) {
  struct Conversation {
    std::array<bool, pairs::fault_count> told{}, had{};
  };
  // A conversation that moves to the other side is one of each.
  std::unordered_map<std::uint64_t, Conversation> of_a, of_b;
  for (const auto& request : pairing.only_a) of_a.try_emplace(conversation_of(*request.sample));
  for (const auto& request : pairing.only_b) of_b.try_emplace(conversation_of(*request.sample));
  const auto of_each = [](const std::vector<pairs::Single>& requests) {
    std::set<samples::Names::Name> replicas;
    for (const auto& request : requests) replicas.insert(request.sample->replica);
    return static_cast<double>(requests.size()) / static_cast<double>(std::max<std::size_t>(1, replicas.size()));
  };
  if (!pairing.only_a.empty()) table.crowd = of_each(pairing.only_b) / of_each(pairing.only_a);
  table.conversations_a = of_a.size();
  table.conversations_b = of_b.size();
  // A side with half as many conversations has a fault half as often.
  const auto weight_a = static_cast<double>(of_b.size()), weight_b = static_cast<double>(of_a.size());
  const auto count = [&](FaultCount& counted, const pairs::Single& request, bool is_b) {
    auto& one = (is_b ? of_b : of_a)[conversation_of(*request.sample)];
    const auto faults = pairs::faults_of(*request.sample, making.names, table.slo);
    for (std::size_t i = 0; i < pairs::fault_count; ++i) {
      if (!faults[i]) continue;
      counted.add(i, is_b, *faults[i] && !one.had[i], request.at_us, is_b ? weight_b : weight_a);
      one.told[i] = true;
      if (*faults[i]) one.had[i] = true;
    }
  };
  auto a = pairing.only_a.begin(), b = pairing.only_b.begin();
  while (a != pairing.only_a.end() || b != pairing.only_b.end()) {
    const bool is_a = b == pairing.only_b.end() || (a != pairing.only_a.end() && a->at_us < b->at_us);
    const std::int64_t minute = minute_of((is_a ? a : b)->at_us);
    Minute now(minute, false);
    const auto first_a = a, first_b = b;
    for (; a != pairing.only_a.end() && minute_of(a->at_us) == minute; ++a) now.add({a->sample, nullptr});
    for (; b != pairing.only_b.end() && minute_of(b->at_us) == minute; ++b) now.add({nullptr, b->sample});
    Row row = now.row(table.rows);
    FaultCount counted(row);
    for (auto one = first_a; one != a; ++one) count(counted, *one, false);
    for (auto one = first_b; one != b; ++one) count(counted, *one, true);
    counted.settle();
    table.rows.push_back(row);
    now.add_to(table.by_conversation);
  }
  for (std::size_t i = 0; i < pairs::fault_count; ++i) {
    auto& drawn = table.drawn[i];
    for (const auto& [key, one] : of_a) drawn.a += one.told[i];
    for (const auto& [key, one] : of_b) drawn.b += one.told[i];
  }
}

void count_answers(Table& table, std::span<const pairs::Pair> pairs, const samples::Names& names) {
  for (const pairs::Pair& pair : pairs) {
    table.answers_a.insert(answer_of(*pair.a));
    table.answers_b.insert(answer_of(*pair.b));
    if (pair.primary != nullptr) table.pools.insert(pair.primary->pool);
    const auto reason = pair.b->drop_reason != 0 ? pair.b->drop_reason : pair.a->drop_reason;
    table.answered = table.answered || reason == 0;
    if (!table.answered) ++table.dropped[std::string(names.text(reason))];
  }
  if (table.answered) table.dropped.clear();
}

template <class Items>
void keep_within(Items& items, const statistics::Window& window) {
  std::erase_if(items, [&](const auto& item) { return !window.holds(item.at_us); });
}

pairs::Pairing within(const pairs::Pairing& whole, const statistics::Window& window) {
  pairs::Pairing part = whole;
  keep_within(part.pairs, window);
  keep_within(part.only_a, window);
  keep_within(part.only_b, window);
  return part;
}

/// Returns the moment before which a request without a shadow has none: a later one may still run.
std::int64_t complete_us(const pairs::Pairing& pairing, std::int64_t last_us) {
  std::vector<float> durations;
  for (const pairs::Pair& pair : pairing.pairs)
    for (const auto* one : {pair.a, pair.b})
      if (std::isfinite(one->e2e)) durations.push_back(one->e2e);
  return last_us - samples::microseconds_of(2.0 * statistics::quantile(std::span(durations), 0.99));
}

}  // namespace

pairs::Quantity quantity_of(Figure figure) {
  using enum Figure;
  if (figure == e2e) return pairs::Quantity::e2e;
  if (figure == ttft || figure == ttft_geomean) return pairs::Quantity::ttft;
  return figure == tpot || figure == tpot_geomean ? pairs::Quantity::tpot : pairs::Quantity::output_tokens;
}

RatioSums Row::of(Figure figure) const { return weighed(unweighted(figure)); }

RatioSums Row::squares(Figure figure) const {
  if (figure != Figure::ttft && figure != Figure::tpot && figure != Figure::e2e) return {};
  const Sums& one = sums[static_cast<std::size_t>(quantity_of(figure))];
  return weighed({static_cast<double>(one.square_a), static_cast<double>(one.square_b),
                  static_cast<double>(one.count_a), static_cast<double>(one.count_b)});
}

RatioSums Row::unweighted(Figure figure) const {
  if (figure == Figure::stalls) {
    constexpr double thousand = 1000;
    return {thousand * static_cast<double>(stalled_a), thousand * static_cast<double>(stalled_b),
            static_cast<double>(requests_a), static_cast<double>(requests_b)};
  }
  const Sums& one = sums[static_cast<std::size_t>(quantity_of(figure))];
  const bool logs = is_geomean(figure);
  return {static_cast<double>(logs ? one.log_a : one.a), static_cast<double>(logs ? one.log_b : one.b),
          static_cast<double>(one.count_a), static_cast<double>(one.count_b)};
}

statistics::Scale scale_of(Figure figure) {
  return is_geomean(figure) || figure == Figure::stalls ? statistics::Scale::difference : statistics::Scale::ratio;
}

std::vector<double> Table::minutes(Figure figure) const {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  if (rows.empty()) return {};
  // A log whose moments lie farther apart than 60 days holds a mistake, and would take memory for each minute.
  constexpr std::int64_t most = std::int64_t{60} * 24 * 60;
  const std::int64_t first = rows.front().minute;
  if (rows.back().minute - first >= most) return {};
  std::vector<double> values(static_cast<std::size_t>(rows.back().minute - first + 1), none);
  for (const Row& row : rows)
    if (const auto value = statistics::figure_of(row.of(figure), scale_of(figure)))
      values[static_cast<std::size_t>(row.minute - first)] = *value;
  return values;
}

FaultTotals Table::faults(pairs::Fault fault) const {
  const auto at = static_cast<std::size_t>(fault);
  FaultTotals all;
  for (const Row& row : rows) {
    const FaultSums& one = row.faults[at];
    all.pairs += one.pairs;
    all.both += one.both;
    all.only_a += one.only_a;
    all.only_b += one.only_b;
  }
  if (!paired()) {
    all.of_a = drawn[at].a;
    all.of_b = drawn[at].b;
    all.pairs = all.of_a + all.of_b;
  }
  return all;
}

double Table::share_of_b(pairs::Fault fault) const {
  const Drawn& one = drawn[static_cast<std::size_t>(fault)];
  const auto a = static_cast<double>(one.a), b = static_cast<double>(one.b);
  return a + b > 0 ? std::clamp(b / (a + b), 1e-3, 1 - 1e-3) : 0.5;
}

statistics::Events Table::causes(pairs::Fault fault) const {
  const bool ends_requests = fault == pairs::Fault::failed || fault == pairs::Fault::empty;
  statistics::Events events;
  double outage_a = 0, outage_b = 0;  // Half minutes of an outage that is not over yet.
  const auto add = [&](double& outage, double& count, const Row& row, std::uint32_t only, double halves) {
    const FaultSums& one = row.faults[static_cast<std::size_t>(fault)];
    const bool out = ends_requests && paired() && only > 0 && 10 * std::uint64_t{only} >= 9 * std::uint64_t{one.pairs};
    if (out) {
      outage += halves;
      return;
    }
    count += std::min(outage, 1.0) + halves;
    outage = 0;
  };
  // A conversation's first fault may lie anywhere in it, so that a cause of half a minute shows in two.
  const double most = paired() ? 2 : 1;
  for (const Row& row : rows) {
    const FaultSums& one = row.faults[static_cast<std::size_t>(fault)];
    add(outage_a, events.a, row, one.only_a, std::min<double>(one.halves_a, most));
    add(outage_b, events.b, row, one.only_b, std::min<double>(one.halves_b, most));
    events.units += one.pairs;
  }
  events.a += outage_a;
  events.b += outage_b;
  if (!paired()) {
    events.units = events.a + events.b;
    const double share = share_of_b(fault);
    events.share = std::max(0.5, share);
    events.share_of_a = std::max(0.5, 1 - share);
  }
  return events;
}

statistics::Events Table::cases(pairs::Fault fault) const {
  const auto at = static_cast<std::size_t>(fault);
  // Weights that make both sides of a split count alike.
  double weight_a = 1, weight_b = 1;
  if (!paired()) {
    weight_b = 1 / share_of_b(fault);
    weight_a = 1 / (1 - share_of_b(fault));
  }
  double a = 0, b = 0, units = 0, squares = 0;
  std::array<double, statistics::tenths> tenths{};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const FaultSums& one = rows[i].faults[at];
    const double ahead = weight_b * one.only_b - weight_a * one.only_a;
    a += one.only_a;
    b += one.only_b;
    units += one.pairs;
    squares += ahead * ahead;
    tenths[i * tenths.size() / rows.size()] += ahead;
  }
  const auto events = [&](double most) {
    if (paired()) return statistics::Events{a / most, b / most, units / most};
    const Drawn& one = drawn[at];
    return statistics::drawn_events(a / most, b / most, static_cast<double>(one.a + one.b) / most, share_of_b(fault));
  };
  const double alone = weight_a * weight_a * a + weight_b * weight_b * b, sum = weight_b * b - weight_a * a;
  if (alone <= 0) return events(1);
  // A few minutes do not tell how much they vary: as many cases as share a cause are one.
  if (static_cast<double>(rows.size()) < statistics::least_minutes_to_pass) {
    const auto one = causes(fault);
    return events(std::max(1.0, (a + b) / std::max(1.0, one.a + one.b)));
  }
  const auto dispersion = [&](double sum_of_squares, std::size_t parts) {
    const auto n = static_cast<double>(parts);
    return (sum_of_squares - sum * sum / n) / alone * n / (n - 1);
  };
  double squares_of_tenths = 0;
  for (const double one : tenths) squares_of_tenths += one * one;
  // Misses follow the speed of a GPU, which drifts for minutes. Other faults may begin late in a window, and would hide
  // behind the difference of its tenths.
  const bool drifts = fault == pairs::Fault::slo;
  return events(
      std::max({1.0, dispersion(squares, rows.size()), drifts ? dispersion(squares_of_tenths, tenths.size()) : 1.0}));
}

bool Table::suits(const sides::Selection& a, const sides::Selection& b, const pairs::Pairing& held) const {
  if (!held.pairs.empty() && held.mode != mode) return false;
  // Requests of both sides without a pair are a split, which is another comparison.
  if (held.pairs.empty() && !held.only_a.empty() && !held.only_b.empty()) return false;
  const auto all = [](const sides::Selection& side, const std::set<Answer>& answers) {
    return std::ranges::all_of(answers, [&](const Answer& answer) { return holds(side, answer); });
  };
  if (!all(a, answers_a) || !all(b, answers_b)) return false;
  // Another [[shadow]] on a side that both are of would have pairs of its own.
  const auto known = [](const samples::Sample& sample, const std::set<Answer>& answers) {
    return std::ranges::any_of(answers, [&](const Answer& answer) {
      return std::get<2>(answer) == sample.shadow && std::get<Role>(answer) == sample.role;
    });
  };
  return std::ranges::all_of(
      held.pairs, [&](const pairs::Pair& pair) { return known(*pair.a, answers_a) && known(*pair.b, answers_b); });
}

bool Table::counts(const std::optional<config::Slo>& objective) const { return same_thresholds(slo, objective); }

bool Table::is_of(samples::Names::Name shadow) const {
  const auto is_it = [shadow](const Answer& answer) {
    return std::get<Role>(answer) == Role::shadow && std::get<2>(answer) == shadow;
  };
  return std::ranges::any_of(answers_a, is_it) || std::ranges::any_of(answers_b, is_it);
}

void leave_to(const Table& table, pairs::Pairing& pairing) {
  const auto is_past = [&](const auto& item) { return item.at_us < table.until_us; };
  std::erase_if(pairing.pairs, is_past);
  std::erase_if(pairing.only_a, is_past);
  std::erase_if(pairing.only_b, is_past);
  pairing.mode = table.mode;
  if (!pairing.warm_us) pairing.warm_us = table.until_us;
  if (table.from_us) pairing.warm_us = *table.from_us;
}

pairs::Pairing add(Table& table, const pairs::Pairing& pairing, const Making& making) {
  if (table.rows.empty()) {
    table.mode = pairing.mode;
    table.slo = making.slo;
  }
  pairs::Pairing asked = within(pairing, making.asked);
  const std::int64_t warm_us = pairing.warm_us.value_or(pairs::any_time.from_us);
  // A log whose moments are of before 1970 holds a mistake.
  const auto is_before = [](const auto& item) { return item.at_us < 0; };
  std::erase_if(asked.pairs, is_before);
  std::erase_if(asked.only_a, is_before);
  std::erase_if(asked.only_b, is_before);
  if (table.paired()) {
    count_answers(table, asked.pairs, making.names);
    table.sameness.add(asked.pairs, table.mode == pairs::Mode::control);
    add_pairs(table, asked.pairs, warm_us, making);
  } else {
    add_split(table, asked, making);
  }
  pairs::Pairing counted = within(asked, {warm_us, pairs::any_time.to_us});
  table.warming += asked.pairs.size() - counted.pairs.size();
  table.pairs += counted.pairs.size();
  table.requests_a += counted.pairs.size() + counted.only_a.size();
  table.requests_b += counted.pairs.size() + counted.only_b.size();
  for (const pairs::Pair& pair : counted.pairs) table.mirrored.add(pair);
  const auto extend = [&](const auto& items) {
    if (items.empty()) return;
    table.from_us = std::min(table.from_us.value_or(items.front().at_us), items.front().at_us);
    table.to_us = std::max(table.to_us, items.back().at_us + 1);
  };
  extend(counted.pairs);
  if (!table.paired()) {
    extend(counted.only_a);
    extend(counted.only_b);
  }
  pairs::Load load =
      pairs::load_of(counted, making.names, making.same_load, complete_us(counted, making.last_us), table.mirrored);
  load.add_earlier(table.load);
  // Where the loads differ, nobody knows what was to be mirrored.
  const auto not_mirrored = load.unfinished.find("not_mirrored");
  if (!load.same && not_mirrored != load.unfinished.end()) {
    load.sampled -= std::min(load.sampled, not_mirrored->second);
    load.unfinished.erase(not_mirrored);
  }
  table.load = std::move(load);
  return counted;
}

std::shared_ptr<const Table> with_leaving(const std::shared_ptr<const Table>& earlier,
                                          std::span<const samples::Sample> samples, const samples::Names& names,
                                          const sides::Selection& a, const sides::Selection& b,
                                          const pairs::WarmUp& warm_up, const std::optional<config::Slo>& slo,
                                          std::int64_t until_us) {
  // Whole minutes leave, and early: those that begin before samples are gone.
  until_us = (minute_of(until_us - 1) + 1) * minute_us;
  if (earlier && until_us <= earlier->until_us) return earlier;
  pairs::Pairing pairing = pair_up(samples, a, b, warm_up);
  if (pairing.mode == pairs::Mode::split || (earlier && !earlier->suits(a, b, pairing))) return earlier;
  if (earlier) leave_to(*earlier, pairing);
  if (pairing.pairs.empty() || pairing.pairs.front().at_us >= until_us) return earlier;
  // A clock that was set, or a silence of months: what was before is no part of one window with what comes now.
  constexpr std::int64_t longest_silence_us = 60 * std::int64_t{86'400'000'000};
  if (earlier && pairing.pairs.front().at_us - earlier->until_us > longest_silence_us)
    return with_leaving(nullptr, samples, names, a, b, warm_up, slo, until_us);
  // The window ends with a pair: what follows the last one stays with the samples.
  const std::int64_t end_us = pairing.pairs.back().at_us + 1;
  until_us = std::min(until_us, end_us + minute_us - 1 - (end_us - 1) % minute_us);
  auto table = earlier ? std::make_shared<Table>(*earlier) : std::make_shared<Table>();
  table->warm_up_s = warm_up.seconds;
  add(*table, pairing,
      {.names = names,
       .asked = {pairs::any_time.from_us, until_us},
       .slo = slo,
       .same_load = true,
       .last_us = samples::last_moment(samples)});
  table->until_us = until_us;
  if (auto& rows = table->rows; rows.size() > Table::most_rows)
    rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(Table::most_rows));
  return table;
}

}  // namespace weir::metrics::compare::table
