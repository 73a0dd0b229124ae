// The last 15 minutes of each figure that is drawn, one number a second. A plain table without a clock.
//
// A figure takes 4 bytes a second: 32 kB a replica, 25 kB a pool, 11 kB a shadow. At most `most_rows` rows have memory,
// so that all of it stays below 14 MiB. A row whose name nobody has put for the whole window is let go, and sooner
// where a new row needs its place: then the row goes that has been away for longest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/live/now.hpp"

namespace weir::proxy::live {

class Window {
 public:
  static constexpr std::size_t seconds = 900;
  static constexpr std::size_t most_rows = 400;

  enum class Rows : std::uint8_t { weir, pools, replicas, shadows };
  static constexpr std::array<std::string_view, 4> rows_names{"weir", "pools", "replicas", "shadows"};
  /// Returns the names of the figures of such rows.
  static std::span<const std::string_view> figures(Rows rows);

  /// Adds the figures of one second; `lasted` is above 1 where seconds before it are missing.
  void add(const Now& now, std::size_t lasted = 1);

  /// Returns the names of the rows. weir's own row is "".
  std::vector<std::string> names(Rows rows) const;
  /// Returns the last `most` numbers of a figure, the latest at the end; NaN is unknown. There are fewer where the row
  /// is younger.
  std::vector<float> last(Rows rows, std::string_view name, std::size_t figure, std::size_t most) const;
  /// Returns the greatest of them; nothing if none is known.
  std::optional<double> peak(Rows rows, std::string_view name, std::size_t figure) const;
  /// Returns the figure's number; nothing if such rows have none of this name.
  static std::optional<std::size_t> number_of(Rows rows, std::string_view figure);

  std::size_t rows() const { return rows_.size(); }
  std::size_t bytes() const;

 private:
  struct Row {
    std::vector<float> numbers;  ///< Of each figure, `seconds` numbers.
    std::uint64_t began = 0;     ///< The second of its first numbers.
    std::uint64_t put = 0;       ///< The second of its last ones.
  };
  using Key = std::pair<Rows, std::string>;
  void put_all(bool is_new, const Now& now);
  /// Puts a row that has a place, or else finds one for it, as `is_new` says; does nothing with another row.
  void put(bool is_new, Rows rows, const std::string& name, std::span<const std::optional<double>> values);
  bool make_place();
  const Row* find(Rows rows, std::string_view name) const;

  std::map<Key, Row> rows_;
  std::uint64_t second_ = 0;  ///< Counts the seconds.
};

}  // namespace weir::proxy::live
