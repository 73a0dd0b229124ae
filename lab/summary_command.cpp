#include "lab/commands.hpp"
namespace weir::lab {
void add_summary_command(CLI::App&, int&) {}
}  // namespace weir::lab
