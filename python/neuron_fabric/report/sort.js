// A click on a column's head sorts by it, large numbers and early letters first; another click turns
// the order round.
document.querySelectorAll("th").forEach(head => head.addEventListener("click", () => {
  const body = head.closest("table").tBodies[0], place = head.cellIndex;
  const turn = head.dataset.turn = head.dataset.turn === "1" ? -1 : 1;
  const order = head.classList.contains("number")
    ? (a, b) => b.cells[place].dataset.key - a.cells[place].dataset.key
    : (a, b) => a.cells[place].textContent.localeCompare(b.cells[place].textContent);
  [...body.rows].sort((a, b) => turn * order(a, b)).forEach(row => body.append(row));
}));
