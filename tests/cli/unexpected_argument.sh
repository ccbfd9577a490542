nf info everything
